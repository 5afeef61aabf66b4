// JupyterLite's kernel in node: its own Python package, driven as its web worker drives it, over the wheels of lite/wheels.py.
//
//   node kernel.mjs FOLDER NOTEBOOK.ipynb...      runs notebooks; prints one JSON object with the outputs of all cells
//   node kernel.mjs FOLDER PROGRAM.py...          runs programs as top-level Python; prints what they print
//
// FOLDER is build/lite. Without JSPI (node before 26, or --no-experimental-wasm-jspi) the same works in another way.
import fs from "fs";
import path from "path";

const [folder, ...files] = process.argv.slice(2);
const { loadPyodide } = await import(path.resolve(folder, "node/node_modules/pyodide/pyodide.mjs"));

async function started() {
  const python = await loadPyodide({ env: { HOME: "/home/pyodide", PYTHONDONTWRITEBYTECODE: "1" } });
  python.loadPackagesFromImports = async () => [];  // all is there; the page would ask its server
  const site = python.runPython("import site; site.getsitepackages()[0]");
  for (const part of ["wheels", "kernel"]) {
    for (const wheel of fs.readdirSync(path.join(folder, part)).filter((name) => name.endsWith(".whl"))) {
      const bytes = new Uint8Array(fs.readFileSync(path.join(folder, part, wheel)));
      python.unpackArchive(bytes, "wheel", { extractDir: site });
    }
  }
  python.FS.mkdirTree("/drive");
  python.mountNodeFS("/mnt", path.resolve(folder, "work"));
  python.runPython("import os, shutil; shutil.copytree('/mnt', '/drive', dirs_exist_ok=True); os.chdir('/drive')");
  return python;
}

const plain = (value) => (value && value.toJs ? value.toJs({ dict_converter: Object.fromEntries }) : value);

async function notebook(python, file) {
  await python.runPythonAsync("import pyodide_kernel");
  const package_ = python.globals.get("pyodide_kernel");
  const kernel = package_.kernel_instance, shell = kernel.interpreter;
  let outputs = [];
  const put = (kind) => (...given) => outputs.push([kind, ...given.map(plain)]);
  package_.stdout_stream.publish_stream_callback = put("stream");
  package_.stderr_stream.publish_stream_callback = put("stream");
  shell.display_pub.clear_output_callback = put("clear");
  shell.display_pub.display_data_callback = put("display");
  shell.display_pub.update_display_data_callback = put("update");
  shell.displayhook.publish_execution_result = put("result");
  shell.send_comm = () => {};
  shell.input = () => "";                             // nobody is there
  const cells = JSON.parse(fs.readFileSync(file)).cells.filter((cell) => cell.cell_type === "code");
  const ended = [];
  for (const [number, cell] of cells.entries()) {
    outputs = [];
    kernel._parent_header = python.toPy({ header: { msg_id: `cell ${number}` } });
    const code = [cell.source].flat().join(""), before = performance.now();
    const reply = plain(await kernel.run(code));
    ended.push({
      code, status: reply.status, tags: cell.metadata.tags ?? [], outputs,
      seconds: Math.round(performance.now() - before) / 1000, error: (reply.traceback ?? []).join("\n"),
    });
  }
  return ended;
}

const answers = {};
for (const file of files) {
  const python = await started();
  if (file.endsWith(".ipynb")) {
    answers[path.basename(file)] = await notebook(python, file);
  } else {
    await python.runPythonAsync(fs.readFileSync(file, "utf8"), { filename: file });
  }
}
const answer = Object.keys(answers).length ? JSON.stringify({ jspi: "Suspending" in WebAssembly, answers }) + "\n" : "";
process.stdout.write(answer, () => process.exit(0));  // not before: a pipe would be cut
