// Starts `python -m agf_magics lsp`, which answers for YAML and Python files and for the cells of notebooks.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

/** The Python of the setting, else that of the Python extension, else python3. */
async function pythonCommand() {
  const chosen = vscode.workspace.getConfiguration("agf-magics").get("python");
  if (chosen) {
    return chosen;
  }
  const python = vscode.extensions.getExtension("ms-python.python");
  const environments = (await python?.activate())?.environments;
  return environments?.getActiveEnvironmentPath?.()?.path || "python3";
}

async function activate(context) {
  const command = await pythonCommand();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const server = { command, args: ["-m", "agf_magics", "lsp"], options: { cwd: folder } };
  const documentSelector = [
    { scheme: "file", language: "yaml" },
    { scheme: "file", language: "python" },
    { scheme: "untitled", language: "yaml" },
    { scheme: "untitled", language: "python" },
    { notebook: "jupyter-notebook", language: "python" },
    { notebook: "jupyter-notebook", language: "yaml" },
  ];
  client = new LanguageClient("agf-magics", "agf-magics", server, { documentSelector });
  context.subscriptions.push({ dispose: () => client?.stop() });
  try {
    await client.start();
  } catch (error) {
    const install = `${command} -m pip install 'agf-magics[lsp]'`;
    vscode.window.showWarningMessage(`agf-magics: the language server does not start (${error.message}): ${install}`);
  }
}

module.exports = { activate, deactivate: () => client?.stop() };
