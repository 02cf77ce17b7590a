// Aim: whatever a script does, the agent, its secrets and the runs beside it stay unharmed, and nothing of
// the script is left. Every script runs under an agent that is root, and in a container as root and as nobody.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, chmod } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { CagedOutcome } from '../../src/monitors/cage-order.ts'
import {
  lackedFor,
  PLANTED,
  processesWith,
  startStandIn,
  type CagedAnswer,
  type CageRequest,
  type StandIn,
} from '../support/cage-stand-in.ts'
import { eventually } from '../support/eventually.ts'

const NODE = process.execPath
/** Where everybody may write, by a name that no earlier run has left. */
const OUTSIDE = ['/tmp', '/dev/shm', '/var/tmp'].map((one) => join(one, `vedette-${randomUUID()}`))

const node = (script: string, ...args: string[]): Pick<CageRequest, 'command' | 'args'> => ({
  command: NODE,
  args: ['-e', script, ...args],
})
const shell = (script: string, ...args: string[]): Pick<CageRequest, 'command' | 'args'> => ({
  command: '/bin/sh',
  args: ['-c', script, 'sh', ...args],
})

/** Tries each expression and says how it went: the error's code, or what came out. */
const TRY = `const fs = require('node:fs')
const attempt = (name, act) => {
  try { console.log(name, 'GOT', String(act()).slice(0, 80)) } catch (e) { console.log(name, e.code) }
}
`

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))
const MODULES = join(PROJECT, 'node_modules')

/** A script of Perl, which every Debian has; `child(ms)` is a process that computes for so long and ends. */
const perl = (script: string): Pick<CageRequest, 'command' | 'args'> => ({
  command: '/usr/bin/perl',
  args: [
    '-e',
    `sub child { return if fork != 0; 1 while (times)[0] * 1000 < $_[0]; exit }
${script}`,
  ],
})

interface Case {
  does: string
  request(standIn: StandIn): Omit<CageRequest, 'id'>
  outcome: CagedOutcome | CagedOutcome[]
  also?(answer: CagedAnswer, standIn: StandIn): void
}

const nothingGot = ({ end }: CagedAnswer) => {
  expect(end.tail.stderr).toBe('')
  expect(end.tail.stdout).not.toBe('')
  expect(end.tail.stdout).not.toMatch(/GOT/)
  expect(JSON.stringify(end)).not.toContain(PLANTED)
}

const CASES: Case[] = [
  {
    does: 'reads its own environment, where nothing of the agent is',
    request: () => shell('env'),
    outcome: 'exited',
    also: ({ end, folder }) => {
      const names = end.tail.stdout
        .trim()
        .split('\n')
        .map((line) => line.replace(/=.*/, ''))
      expect(names.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(
        'HOME LANG PATH PWD RES_OPTIONS TMPDIR TZ XDG_CACHE_HOME XDG_CONFIG_HOME XDG_RUNTIME_DIR'.split(
          ' ',
        ),
      )
      expect(end.tail.stdout).toContain(`HOME=${folder}/home`)
    },
  },
  {
    does: 'looks into the agent through /proc',
    request: ({ facts }) =>
      node(
        `${TRY}for (const of of ['environ', 'maps', 'mem', 'fd', 'cwd', 'root', 'task/' + process.argv[1] + '/environ'])
  attempt(of, () => of === 'fd' ? fs.readdirSync('/proc/' + process.argv[1] + '/fd')
    : of === 'cwd' || of === 'root' ? fs.readdirSync('/proc/' + process.argv[1] + '/' + of)
    : fs.readFileSync('/proc/' + process.argv[1] + '/' + of))`,
        String(facts.pid),
      ),
    outcome: 'exited',
    also: nothingGot,
  },
  {
    does: 'reads the key and the spool, directly and through links',
    request: ({ facts }) =>
      node(
        `${TRY}for (const path of process.argv.slice(1)) {
  attempt(path, () => fs.readFileSync(path))
  fs.symlinkSync(path, 'link'); attempt('link', () => fs.readFileSync('link')); fs.unlinkSync('link')
  attempt('hard link', () => fs.linkSync(path, 'hard'))
  attempt('list', () => fs.readdirSync(require('node:path').dirname(path)))
}`,
        join(facts.dataFolder, 'key'),
        join(facts.root, 'spool'),
      ),
    outcome: 'exited',
    also: nothingGot,
  },
  {
    does: 'writes outside of its folder',
    request: ({ facts }) =>
      node(
        `${TRY}for (const path of process.argv.slice(1)) attempt(path, () => fs.writeFileSync(path, 'x'))
attempt('truncate', () => fs.truncateSync(process.argv[1], 0))
attempt('rename', () => fs.renameSync(process.argv[1], 'taken'))
attempt('unlink', () => fs.unlinkSync(process.argv[1]))`,
        join(facts.root, 'spool'),
        join(facts.root, 'new'),
        ...OUTSIDE,
        '../beside',
      ),
    outcome: 'exited',
    also: (answer) => {
      nothingGot(answer)
      expect(OUTSIDE.filter((path) => existsSync(path))).toEqual([])
    },
  },
  {
    does: 'opens terminals, which may be somebody’s',
    request: () =>
      node(`${TRY}for (const path of ['/dev/tty', '/dev/ptmx', '/dev/pts/0', '/dev/pts/1'])
  attempt(path, () => fs.openSync(path, 'r+'))
attempt('list', () => fs.readdirSync('/dev/pts'))`),
    outcome: 'exited',
    also: nothingGot,
  },
  {
    does: 'connects to a local socket of the system, by path, link and abstract name',
    request: ({ facts }) =>
      node(
        `const net = require('node:net'), fs = require('node:fs')
fs.symlinkSync(process.argv[1], 'link.sock')
for (const path of [process.argv[1], process.cwd() + '/link.sock', '\\0abstract'])
  net.connect(path).on('data', (data) => console.log('GOT', String(data))).on('error', (e) => console.log(e.code))`,
        join(facts.root, 'service.sock'),
      ),
    outcome: 'exited',
    also: (answer) => {
      nothingGot(answer)
      expect(answer.end.tail.stdout.trim().split('\n')).toHaveLength(3)
    },
  },
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
    request: () => ({
      ...node(
        `const again = () => { try { require('node:child_process').spawn(process.execPath, ['-e', process.argv[1], process.argv[1]], { detached: true, stdio: 'ignore' }).on('error', () => {}).unref() } catch {} }
setInterval(again, 5)`,
        `const again = () => { try { require('node:child_process').spawn(process.execPath, ['-e', process.argv[1], process.argv[1]], { detached: true, stdio: 'ignore' }).on('error', () => {}).unref() } catch {} }
setInterval(again, 5)`,
      ),
      // Even a machine with much else to do starts so many meanwhile.
      limits: { wallMs: 15_000, memoryBytes: 8 * 1024 ** 3 },
    }),
    outcome: 'too-many-processes',
    also: ({ end }) => expect(end.usage.processesMax).toBeLessThanOrEqual(80),
  },
  {
    does: 'fills memory outside of the heap',
    request: () => node('const all = []; setInterval(() => all.push(Buffer.alloc(8e6, 1)), 5)'),
    outcome: 'out-of-memory',
    also: ({ end }) => expect(end.usage.peakMemoryBytes).toBeLessThan(600 * 1024 ** 2),
  },
  {
    does: 'fills its heap',
    request: () => ({
      command: NODE,
      args: ['--max-old-space-size=64', '-e', 'const all = []; for (;;) all.push({ a: [1.5] })'],
    }),
    outcome: 'out-of-memory',
  },
  {
    does: 'fills memory with many processes',
    request: () =>
      node(`for (let i = 0; i < 20; i++) require('node:child_process').spawn(process.execPath,
  ['-e', 'const b = Buffer.alloc(3e7, 1); setInterval(() => b, 1000)'])`),
    outcome: 'out-of-memory',
  },
  {
    does: 'fills the disk with many files',
    request: () => shell('i=0; while :; do head -c 8000000 /dev/zero > f$i; i=$((i+1)); done'),
    outcome: 'out-of-disk',
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
    does: 'fills the disk with files that are mapped alone',
    request: () => ({
      ...node(
        `const fs = require('node:fs')
const map = require(process.argv[1] + '/koffi').load(null)
  .func('void *mmap(void *, size_t, int, int, int, int64_t)')
const data = Buffer.alloc(4e6, 1)
setInterval(() => {
  const fd = fs.openSync('f', 'w+')
  fs.writeSync(fd, data); fs.unlinkSync('f')
  map(null, 4e6, 1, 1, fd, 0) // PROT_READ, MAP_SHARED
  fs.closeSync(fd)
}, 5)`,
        MODULES,
      ),
      readable: [MODULES],
      limits: { wallMs: 25_000 },
    }),
    outcome: 'out-of-disk',
  },
  {
    does: 'fills the disk with files that wait in a socket',
    request: () => ({
      command: NODE,
      args: [
        '--input-type=module',
        '-e',
        `import { closeSync, openSync, unlinkSync, writeSync } from 'node:fs'
import { descriptorPair, sendDescriptor } from '${PROJECT}src/monitors/descriptor-passing.ts'
const [ours] = descriptorPair()
const data = Buffer.alloc(4e6, 1)
setInterval(() => {
  const fd = openSync('f', 'w+')
  writeSync(fd, data); unlinkSync('f')
  sendDescriptor(ours, Buffer.from('x'), fd)
  closeSync(fd)
}, 20)`,
      ],
      readable: ['node_modules', 'src', 'package.json'].map((name) => join(PROJECT, name)),
      limits: { wallMs: 25_000 },
    }),
    outcome: 'out-of-disk',
  },
  {
    does: 'writes one endless file',
    request: () => shell('exec head -c 1000000000 /dev/zero > f'),
    outcome: 'out-of-disk',
    also: ({ end }) => expect(end.signal).toBe('SIGXFSZ'),
  },
  {
    does: 'writes without end to its output',
    request: () => shell('yes'),
    outcome: 'out-of-output',
    also: ({ end }) => expect(end.tail.stdout.length).toBeLessThanOrEqual(65_536),
  },
  {
    does: 'ignores being asked to end',
    request: () => ({
      ...shell(`trap '' TERM INT HUP; echo ready; while :; do sleep 1; done`),
      stopAt: 'ready',
    }),
    outcome: 'cancelled',
    also: ({ end, tookMs }) => {
      expect(end.strays).toBeGreaterThan(0)
      expect(tookMs).toBeLessThan(3000)
    },
  },
  {
    does: 'forks twice, detaches, leaves its session and ends',
    request: () =>
      shell('(setsid sh -c "setsid sleep 1000 & setsid sleep 1000" >/dev/null 2>&1 &) ; sleep 0.2'),
    outcome: 'exited',
    also: ({ end }) => expect(end.strays).toBeGreaterThan(1),
  },
  {
    does: 'leaves a process that holds its output open',
    request: () => shell('sleep 1000 & echo done'),
    outcome: 'exited',
    also: ({ end, tookMs }) => {
      expect(end.tail.stdout).toBe('done\n')
      expect(tookMs).toBeLessThan(3000)
    },
  },
  {
    does: 'stops itself',
    request: () => ({ ...shell('kill -STOP $$; echo on'), limits: { wallMs: 500 } }),
    outcome: 'out-of-time',
  },
  {
    does: 'computes without end',
    request: () => ({ ...node('for (;;);'), limits: { cpuMs: 500 } }),
    outcome: 'out-of-cpu',
  },
  {
    does: 'computes without end in short-lived children',
    request: () => ({
      ...shell('while :; do sh -c "i=0; while [ \\$i -lt 20000 ]; do i=\\$((i+1)); done"; done'),
      limits: { cpuMs: 1000, wallMs: 25_000 },
    }),
    outcome: 'out-of-cpu',
  },
  {
    does: 'computes without end in children that the system forgets',
    request: () => ({
      ...perl(`$SIG{CHLD} = 'IGNORE'; while (1) { child(50); waitpid(-1, 0) }`),
      limits: { cpuMs: 2000, wallMs: 20_000 },
    }),
    outcome: 'out-of-cpu',
  },
  {
    does: 'computes without end in children that it never waits for',
    request: () => ({
      ...perl(`while (1) { child(100); select(undef, undef, undef, 0.2) }`),
      limits: { cpuMs: 2000, wallMs: 20_000 },
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
      limits: { cpuMs: 2000, wallMs: 20_000 },
    }),
    outcome: 'out-of-cpu',
    also: ({ end }) => expect(end.strays).toBe(1),
  },
  {
    does: 'kills the agent, its warden, every process',
    request: ({ facts }) =>
      node(
        `for (const pid of [process.argv[1], process.ppid, -process.argv[1], -process.ppid, 1])
  for (const signal of [0, 'SIGTERM', 'SIGKILL', 'SIGSTOP'])
    try { process.kill(Number(pid), signal); console.log('GOT', pid, signal) } catch (e) { console.log(e.code) }
try { process.kill(-1, 'SIGKILL') } catch (e) { console.log(e.code) }`,
        String(facts.pid),
      ),
    outcome: 'exited',
    also: nothingGot,
  },
  {
    does: 'takes descriptors and precedence from the agent',
    request: ({ facts }) =>
      shell(
        `prlimit --pid $1 --nofile=1:1 && echo GOT; renice -n 19 -p $1 && echo GOT
taskset -p 1 $1 && echo GOT; renice -n 19 -u $(id -u) && echo GOT; exec 2>/dev/null; echo tried`,
        String(facts.pid),
      ),
    outcome: 'exited',
    also: ({ end }) => {
      expect(end.tail.stdout).toMatch(/tried/)
      expect(end.tail.stdout).not.toMatch(/GOT/)
    },
  },
  {
    does: 'makes a folder too deep to name, and forbids it to everybody',
    request: () =>
      node(`const fs = require('node:fs')
for (let i = 0; i < 3000; i++) { fs.mkdirSync('deep'); process.chdir('deep') }
fs.writeFileSync('file', ''); fs.chmodSync('.', 0)`),
    outcome: 'exited',
  },
]

describe.each(['root', 'root of a container', 'nobody in a container'] as const)(
  'under an agent that is %s',
  (as) => {
    const lacked = lackedFor(as)
    let standIn: StandIn
    let root: string
    let beats = 0
    let neighbour: Promise<CagedAnswer>
    let isNeighbourDone = false

    beforeAll(async () => {
      if (lacked !== undefined) return
      root = await mkdtemp(join(tmpdir(), 'vedette-cage-'))
      await chmod(root, 0o777)
      standIn = await startStandIn(root, as)
      const script = `setInterval(() => console.log('beat'), 50)`
      neighbour = standIn.run(
        { ...node(script), echo: true, limits: { wallMs: 600_000 } },
        () => beats++,
      )
      void neighbour.then(() => (isNeighbourDone = true))
      await beat()
    })
    afterAll(async () => {
      if (lacked !== undefined) return
      await standIn.kill()
      await rm(root, { recursive: true, force: true })
    })

    async function beat(): Promise<void> {
      const before = beats
      await eventually(() => beats > before, { what: 'a beat of the neighbour' })
      expect(isNeighbourDone).toBe(false)
    }

    test.skipIf(lacked !== undefined).for(CASES)('a script $does', async (one) => {
      const answer = await standIn.run(one.request(standIn))
      expect(answer.end).toMatchObject({ leftBehind: 0 })
      expect([one.outcome].flat()).toContain(answer.end.outcome)
      expect(answer.end.layers).toEqual({
        ownUser: as !== 'nobody in a container',
        landlock: expect.any(Number),
        network: true,
      })
      one.also?.(answer, standIn)
      expect(processesWith(answer.folder)).toEqual([])
      expect(existsSync(answer.folder)).toBe(false)
      await beat()
    })
  },
)
