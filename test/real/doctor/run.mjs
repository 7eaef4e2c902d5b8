#!/usr/bin/env node
// Starts real servers from npm as a careless user does, without a key and without an argument,
// and compares what mcpvisor doctor says with servers.tsv. The servers are those of the table,
// at its versions; they are installed into node_modules/.servers.
//
//	test/real/doctor/run.mjs            all servers, about 5 minutes on two cores
//	test/real/doctor/run.mjs PACKAGE…   some of them
//	test/real/doctor/run.mjs --update   writes the table again
//
// The column "judged" is written by hand, from what the server wrote: "right" if the advice is
// what helps, "general" if more could be said, "wrong" if it leads astray. A row whose advice
// changes has to be judged again, so --update empties it.
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const here = import.meta.dirname;
const table = path.join(here, 'servers.tsv');
const words = process.argv.slice(2);
const update = words.includes('--update');
const named = words.filter((word) => word !== '--update');
const [header, ...rows] = readFileSync(table, 'utf8').trimEnd().split('\n').map((line) => line.split('\t'));
const temporary = mkdtempSync(path.join(tmpdir(), 'doctor-'));
const program = path.join(temporary, 'mcpvisor');
execFileSync('go', ['build', '-o', program, './cmd/mcpvisor'], { cwd: path.join(here, '../../..'), stdio: 'inherit' });

const run = (file, args, options) =>
  new Promise((resolve) => execFile(file, args, { timeout: 180_000, ...options }, (error, stdout, stderr) => resolve({ error, stdout, stderr })));

async function diagnose([name, version]) {
  const file = name.replace(/[@/]/g, '_');
  const folder = path.join(here, 'node_modules/.servers', `${file}@${version}`);
  if (!existsSync(path.join(folder, 'node_modules', name))) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, 'package.json'), '{"private": true}');
    const { error } = await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error', `${name}@${version}`], { cwd: folder });
    if (error) return ['not installed', ''];
  }
  // One file and one home for each: servers keep state there. npx finds the installed package.
  const config = path.join(temporary, `${file}.json`);
  const entry = { command: 'npx', args: ['-y', name], cwd: folder, timeouts: { start: '40s', list: '20s' } };
  writeFileSync(config, JSON.stringify({ mcpServers: { server: entry } }));
  const home = mkdtempSync(path.join(temporary, 'home-'));
  const { stdout } = await run(program, ['-c', config, '--fresh', '--json', 'doctor'], { env: { PATH: process.env.PATH, HOME: home } });
  const finding = JSON.parse(stdout).findings.at(-1);
  return [finding.ok ? 'ready' : 'failed', (finding.advice ?? '').replaceAll(home, '~').replaceAll(folder, '.')];
}

const queue = rows.filter(([name]) => named.length === 0 || named.includes(name));
let different = 0;
async function work() {
  for (let row = queue.shift(); row; row = queue.shift()) {
    const [result, advice] = await diagnose(row);
    if (result === row[2] && advice === (row[4] ?? '')) continue;
    different++;
    console.log(`${row[0]}@${row[1]}\n  was ${row[2]}: ${row[4] ?? ''}\n  is  ${result}: ${advice}`);
    row.splice(2, 3, result, result === 'ready' ? '' : '?', advice);
  }
}
await Promise.all([work(), work()]);
rmSync(temporary, { recursive: true, force: true });
if (update) writeFileSync(table, [header, ...rows].map((row) => row.join('\t').trimEnd()).join('\n') + '\n');
const count = (column, value) => rows.filter((row) => row[column] === value).length;
console.log(`${rows.length} servers: ${count(2, 'ready')} ready; of ${count(2, 'failed')} failures the advice is ` +
  `${count(3, 'right')} right, ${count(3, 'general')} general, ${count(3, 'wrong')} wrong, ${count(3, '?')} not judged; ${different} differ from the table`);
process.exitCode = different > 0 && !update ? 1 : 0;
