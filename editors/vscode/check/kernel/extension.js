// For checks only: runs the cells of notebooks in a kernel behind bridge.py, as the Jupyter extension does, without its widgets.
"use strict";

const { spawn } = require("child_process");
const readline = require("readline");
const vscode = require("vscode");

const running = new Map(); // by the number of the cell that runs
let bridge;
let last = 0;

function outputOf({ type, content }) {
  const { NotebookCellOutput, NotebookCellOutputItem } = vscode;
  if (type === "stream") {
    const make = content.name === "stderr" ? NotebookCellOutputItem.stderr : NotebookCellOutputItem.stdout;
    return new NotebookCellOutput([make(content.text)]);
  }
  if (type === "error") {
    const error = { name: content.ename, message: content.evalue, stack: content.traceback.join("\n") };
    return new NotebookCellOutput([NotebookCellOutputItem.error(error)]);
  }
  return new NotebookCellOutput(itemsOf(content.data));
}

function itemsOf(data) {
  const { NotebookCellOutputItem } = vscode;
  return Object.entries(data).map(([mime, value]) =>
    typeof value === "string" ? NotebookCellOutputItem.text(value, mime) : NotebookCellOutputItem.json(value, mime));
}

function receive(message) {
  const run = running.get(message.id);
  if (!run) return;
  if (message.type === "done") {
    running.delete(message.id);
    run.execution.executionOrder = message.count;
    run.execution.end(message.ok, Date.now());
    run.ended();
  } else if (message.type === "update_display_data") {
    const shown = run.outputs.get(message.content.transient.display_id);
    if (shown) run.execution.replaceOutputItems(itemsOf(message.content.data), shown);
  } else {
    const output = outputOf(message);
    run.execution.appendOutput(output);
    const name = message.content.transient?.display_id;
    if (name) run.outputs.set(name, output);
  }
}

function begin() {
  const [command, ...args] = vscode.workspace.getConfiguration("agf-test-kernel").get("bridge");
  bridge = spawn(command, args, { cwd: vscode.workspace.workspaceFolders[0].uri.fsPath });
  readline.createInterface({ input: bridge.stdout }).on("line", (line) => receive(JSON.parse(line)));
}

async function runCells(cells, notebook, controller) {
  if (!bridge) begin();
  for (const cell of cells) {
    const execution = controller.createNotebookCellExecution(cell);
    const id = ++last;
    execution.start(Date.now());
    execution.clearOutput();
    await new Promise((ended) => {
      running.set(id, { execution, ended, outputs: new Map() });
      bridge.stdin.write(`${JSON.stringify({ id, code: cell.document.getText(), file: notebook.uri.fsPath })}\n`);
    });
  }
}

function activate(context) {
  const controller = vscode.notebooks.createNotebookController("agf-test-kernel", "jupyter-notebook", "agf test kernel", runCells);
  controller.supportedLanguages = ["python"];
  controller.supportsExecutionOrder = true;
  const prefer = (notebook) => controller.updateNotebookAffinity(notebook, vscode.NotebookControllerAffinity.Preferred);
  vscode.workspace.notebookDocuments.forEach(prefer);
  context.subscriptions.push(controller, vscode.workspace.onDidOpenNotebookDocument(prefer), { dispose: () => bridge?.kill() });
}

module.exports = { activate };
