// Whatever a script does, the agent, its secrets and other runs are unharmed, and nothing of it is left.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { PLANTED, type StandInAnswer } from '../support/sandbox/stand-in.ts'
import {
  node,
  shell,
  testHostileScripts,
  type HostileScript,
} from '../support/sandbox/hostile-scripts.ts'

/** Where everybody may write, by a name that no earlier run has left. */
const OUTSIDE = ['/tmp', '/dev/shm', '/var/tmp'].map((one) => join(one, `vedette-${randomUUID()}`))

/** Tries each expression and says how it went: the error's code, or what came out. */
const TRY = `const fs = require('node:fs')
const attempt = (name, act) => {
  try { console.log(name, 'GOT', String(act()).slice(0, 80)) } catch (e) { console.log(name, e.code) }
}
`

const nothingGot = ({ end }: StandInAnswer) => {
  expect(end.tail.stderr).toBe('')
  expect(end.tail.stdout).not.toBe('')
  expect(end.tail.stdout).not.toMatch(/GOT/)
  expect(JSON.stringify(end)).not.toContain(PLANTED)
}

const SCRIPTS: (Omit<HostileScript, 'outcome'> & Partial<HostileScript>)[] = [
  {
    does: 'reads its own environment, where nothing of the agent is',
    request: () => shell('env'),
    also: ({ end, folder }) => {
      const names = [...end.tail.stdout.matchAll(/^(\w+)=/gm)].map(([, name = '']) => name)
      expect(names.toSorted((a, b) => (a < b ? -1 : 1)).join(' ')).toBe(
        'HOME LANG PATH PWD RES_OPTIONS TMPDIR TZ XDG_CACHE_HOME XDG_CONFIG_HOME XDG_RUNTIME_DIR',
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
        '../outside',
      ),
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
    also: (answer) => {
      nothingGot(answer)
      expect(answer.end.tail.stdout.trim().split('\n')).toHaveLength(3)
    },
  },
  {
    does: 'ignores being asked to end',
    request: () => ({
      ...shell(`trap '' TERM INT HUP; echo ready; while :; do sleep 1; done`),
      stopAt: 'ready',
    }),
    outcome: 'cancelled',
    also: ({ end, tookMs }) => {
      expect(end.leftovers).toBeGreaterThan(0)
      expect(tookMs).toBeLessThan(3000)
    },
  },
  {
    does: 'forks twice, detaches, leaves its session and ends',
    request: () =>
      shell('(setsid sh -c "setsid sleep 1000 & setsid sleep 1000" >/dev/null 2>&1 &) ; sleep 0.2'),
    also: ({ end }) => expect(end.leftovers).toBeGreaterThan(1),
  },
  {
    does: 'leaves a process that holds its output open',
    request: () => shell('sleep 1000 & echo done'),
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
    does: 'kills the agent, its supervisor, every process',
    request: ({ facts }) =>
      node(
        `for (const pid of [process.argv[1], process.ppid, -process.argv[1], -process.ppid, 1])
  for (const signal of [0, 'SIGTERM', 'SIGKILL', 'SIGSTOP'])
    try { process.kill(Number(pid), signal); console.log('GOT', pid, signal) } catch (e) { console.log(e.code) }
try { process.kill(-1, 'SIGKILL') } catch (e) { console.log(e.code) }`,
        String(facts.pid),
      ),
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
  },
]

testHostileScripts(SCRIPTS.map((one) => ({ outcome: 'exited' as const, ...one })))
