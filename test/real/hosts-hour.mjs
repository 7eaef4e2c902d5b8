#!/usr/bin/env node
// Measures what ten hosts with six servers cost over a working hour, played 20 times as fast: processes beside mcpvisor (servers, and a
// watchdog for each run), memory (PSS of all processes, mcpvisor included), and how long calls take. Usage: test/real/hosts-hour.mjs PROGRAM, after test/real/run.
// Each host has a configuration of its own, or all have one; servers are eager, or lazy and asleep after 10 minutes
// (of the hour) without a call. Each host makes two calls an hour, each of another server. Linux only.
import { spawn, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, dirname, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

const here = dirname(resolve(process.argv[1])), program = resolve(process.argv[2] ?? "bin/mcpvisor");
const faster = 20, hour = 3600e3 / faster, hosts = 10, callsPerHost = 2;
const scope = "node_modules/@modelcontextprotocol/";
const servers = [
  ["files", [scope + "server-filesystem/dist/index.js", "testdata"], "list_allowed_directories", {}],
  ["memory", [scope + "server-memory/dist/index.js"], "read_graph", {}],
  ["everything", [scope + "server-everything/dist/index.js"], "echo", { message: "hello" }],
  ["thinking", [scope + "server-sequential-thinking/dist/index.js"], "sequentialthinking", { thought: "a", thoughtNumber: 1, totalThoughts: 1, nextThoughtNeeded: false }],
  ["sums", ["fastmcp-server.mjs"], "add", { a: 40, b: 2 }],
  ["browser", ["node_modules/@playwright/mcp/cli.js", "--headless", "--isolated"], "browser_close", {}],
];

// started returns the processes below this one: [pid, is not mcpvisor].
function started() {
  const parent = new Map(), name = new Map();
  for (const pid of readdirSync("/proc").filter((n) => /^\d+$/.test(n))) {
    try {
      const [, comm, ppid] = /^\d+ \((.*)\) \S (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, "utf8"));
      parent.set(pid, ppid), name.set(pid, comm);
    } catch {} // it has ended
  }
  const below = (pid) => pid === String(process.pid) || (parent.has(pid) && below(parent.get(pid)));
  return [...parent.keys()].filter((pid) => pid !== String(process.pid) && below(pid)).map((pid) => [pid, name.get(pid) !== "mcpvisor"]);
}

function sample() {
  let processes = 0, pss = 0;
  for (const [pid, other] of started()) {
    try {
      pss += Number(/^Pss: +(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))[1]) / 1024;
      processes += other;
    } catch {}
  }
  return { processes, pss };
}

// connect starts mcpvisor stdio as a host does.
async function connect(file, env) {
  const child = spawn(program, ["--config", file, "stdio"], { env, stdio: ["pipe", "pipe", "inherit"] }), waits = new Map();
  createInterface(child.stdout).on("line", (line) => { const m = JSON.parse(line); waits.get(m.id)?.(m); });
  let id = 0;
  const send = (m) => child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\n");
  const request = (method, params) => new Promise((done) => { waits.set(++id, done); send({ id, method, params }); });
  await request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "host", version: "1" } });
  send({ method: "notifications/initialized" });
  return { request, close: () => child.stdin.end() };
}

async function play(label, files, lazy) {
  const dir = mkdtempSync(join(tmpdir(), "mh")), env = { ...process.env, XDG_RUNTIME_DIR: dir, XDG_CACHE_HOME: dir, HOME: dir };
  mkdirSync(join(dir, "c"));
  const entries = Object.fromEntries(servers.map(([name, args]) => [name, { command: process.execPath, args, cwd: here, ...(lazy ? { start: "lazy", idle_stop: `${600 / faster}s` } : {}) }]));
  const paths = Array.from({ length: files }, (_, i) => join(dir, "c", `${i}.json`));
  for (const path of paths) writeFileSync(path, JSON.stringify({ mcpServers: entries }));
  const all = [];
  for (let i = 0; i < hosts; i++) all.push(await connect(paths[i % files], env));
  for (const path of paths) execFileSync(program, ["--config", path, "--wait", "ready", "status", "--timeout", "10m"], { env, stdio: ["ignore", "ignore", "inherit"] });
  const samples = [], took = [], ended = pause(hour);
  let over = false, failed = 0;
  ended.then(() => { over = true; });
  const calls = all.map(async (host, i) => {
    for (let n = 0; n < callsPerHost; n++) {
      await pause(hour / callsPerHost / hosts * (n === 0 ? i + 0.5 : hosts)); // spread evenly
      const [name, , tool, args] = servers[(i + n) % servers.length], began = Date.now();
      const answer = await host.request("tools/call", { name: `${name}__${tool}`, arguments: args });
      took.push(Date.now() - began);
      if (answer.error) failed++, console.error(label, name, JSON.stringify(answer.error));
    }
  });
  while (!over) { samples.push(sample()); await pause(2000); }
  await Promise.all(calls);
  all.forEach((h) => h.close());
  for (let left = 120; started().length && left > 0; left--) await pause(500); // the runs end when they are unused
  rmSync(dir, { recursive: true, force: true });
  const mean = (key) => Math.round(samples.reduce((sum, s) => sum + s[key], 0) / samples.length), most = (key) => Math.round(Math.max(...samples.map((s) => s[key])));
  took.sort((a, b) => a - b);
  console.log(`| ${label} | ${mean("processes")} (${most("processes")}) | ${mean("pss")} (${most("pss")}) MiB | ${took[took.length >> 1]} ms (${took.at(-1)} ms) |${failed ? ` ${failed} failed` : ""}`);
}

console.log("| | processes beside mcpvisor, mean (most) | memory, mean (most) | a call, median (longest) |\n|---|---|---|---|");
await play("one configuration, lazy", 1, true);
await play("one configuration, eager", 1, false);
await play("ten configurations, lazy", hosts, true);
await play("ten configurations, eager", hosts, false);
