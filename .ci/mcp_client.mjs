// A client with the MCP SDK for TypeScript: calls a tool of a server that it starts, and prints the result as JSON.
//
//     node mcp_client.mjs FOLDER-OF-NODE_MODULES call|task TOOL ARGUMENTS COMMAND ...

import { createRequire } from "node:module";
import { join } from "node:path";

const [folder, act, name, given, command, ...args] = process.argv.slice(2);
const require = createRequire(join(folder, "package.json"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

const client = new Client({ name: "typescript", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
const call = { name, arguments: JSON.parse(given) };
let result;
if (act === "call") {
  result = await client.callTool(call);
} else {
  const seen = [];
  for await (const message of client.experimental.tasks.callToolStream(call, undefined, { task: { ttl: 60_000 } })) {
    seen.push(message.type);
    if (message.type === "result") result = message.result;
  }
  if (seen[0] !== "taskCreated" || result === undefined) throw new Error(`no task: ${seen}`);
}
console.log(JSON.stringify(result));
await client.close();
