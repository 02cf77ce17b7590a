// Hidden and endless use of memory, processors, disk or processes ends at its limit and harms nobody else.
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { StandInRequest } from '../support/sandbox/stand-in.ts'
import {
  node,
  shell,
  testHostileScripts,
  type HostileScript,
} from '../support/sandbox/hostile-scripts.ts'

const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url))

/** A script of Perl, which every Debian has; `child(ms)` is a process that computes for so long and ends. */
const perl = (script: string): Pick<StandInRequest, 'command' | 'args'> => ({
  command: '/usr/bin/perl',
  args: [
    '-e',
    `sub child { return if fork != 0; 1 while (times)[0] * 1000 < $_[0]; exit }\n${script}`,
  ],
})

const AGAIN = `const again = () => { try { require('node:child_process').spawn(process.execPath, ['-e', process.argv[1], process.argv[1]], { detached: true, stdio: 'ignore' }).on('error', () => {}).unref() } catch {} }
setInterval(again, 5)`

const SCRIPTS: HostileScript[] = [
  {
    does: 'forks without end in a shell',
    request: () => ({
      ...shell('b() { b | b & }; b; while :; do b; done'),
      limits: { wallMs: 2000 },
    }),
    // A shell may give up by itself.
    outcome: ['out-of-time', 'too-many-processes', 'exited'],
    also: ({ end }) => expect(end.usage.processesMax).toBeLessThanOrEqual(80),
  },
  {
    does: 'starts detached processes of its own kind without end',
    request: () => ({ ...node(AGAIN, AGAIN), limits: { memoryBytes: 8 * 1024 ** 3 } }),
    outcome: 'too-many-processes',
    also: ({ end }) => expect(end.usage.processesMax).toBeLessThanOrEqual(80),
  },
  {
    does: 'fills memory with many processes',
    request: () =>
      node(`for (let i = 0; i < 20; i++) require('node:child_process').spawn(process.execPath,
  ['-e', 'const b = Buffer.alloc(3e7, 1); setInterval(() => b, 1000)'])`),
    outcome: 'out-of-memory',
  },
  {
    does: 'fills the disk with files that have no name',
    request: () =>
      node(`const fs = require('node:fs')
const data = Buffer.alloc(4e6)
setInterval(() => { const fd = fs.openSync('f', 'w'); fs.unlinkSync('f'); fs.writeSync(fd, data) }, 5)`),
    outcome: 'out-of-disk',
  },
  {
    does: 'computes without end in short-lived children',
    request: () => ({
      ...shell('while :; do sh -c "i=0; while [ \\$i -lt 20000 ]; do i=\\$((i+1)); done"; done'),
      limits: { cpuMs: 1000 },
    }),
    outcome: 'out-of-cpu',
  },
  {
    does: 'computes without end in children that it never waits for',
    request: () => ({
      ...perl(`while (1) { child(100); select(undef, undef, undef, 0.2) }`),
      limits: { cpuMs: 2000 },
    }),
    outcome: 'out-of-cpu',
  },
  {
    does: 'ends its first thread and goes on in another',
    request: () => ({
      ...node(
        `process.on('SIGTERM', () => {})
new (require('node:worker_threads').Worker)('for (;;);', { eval: true })
const call = require(process.argv[1] + '/koffi').load(null).func('long syscall(long, long)')
setTimeout(() => call(process.arch === 'x64' ? 60 : 93, 0), 300) // exit, of this thread alone`,
        MODULES,
      ),
      readable: [MODULES],
      limits: { cpuMs: 2000 },
    }),
    outcome: 'out-of-cpu',
    also: ({ end }) => expect(end.leftovers).toBe(1),
  },
]

testHostileScripts(SCRIPTS)
