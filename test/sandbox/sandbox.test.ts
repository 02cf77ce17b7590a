// A run gets what its request says and reports how it ended; without a sandbox nothing runs unless allowed.
import { readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { LIMITS } from '../../src/contract/versions.ts'
import { sandboxFailure } from '../../src/sandbox/failure.ts'
import { DeadlineReached } from '../../src/network/deadline.ts'
import { parentWithCommand, processesWith, startStandIn } from '../support/sandbox/stand-in.ts'
import { sandboxed } from '../support/sandbox/sandboxed.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const script = (text: string, ...more: string[]) => ({ args: () => ['-e', text, ...more] })
const shell = (text: string) => ({ command: '/bin/sh', args: () => ['-c', text] })

describe('an order', () => {
  test('gives arguments, environment, folder, input and messages', async () => {
    const messages: unknown[] = []
    const end = await sandboxed({
      ...script(
        `const fs = require('node:fs')
console.log(process.argv[1], process.env.WANTED, process.cwd(), fs.readFileSync(0, 'utf8'))
fs.writeSync(3, '{"step":1}\\nno json\\n{"step":2}\\n')`,
        'first',
      ),
      environment: { WANTED: 'yes' },
      input: Readable.from(['typed']),
      onMessage: (message) => messages.push(message),
    })
    const clean = { leftovers: 0, leftBehind: 0, blocked: [] }
    expect(end).toMatchObject({ outcome: 'exited', exitCode: 0, ...clean })
    expect(end.tail.stdout).toBe(`first yes ${end.folder} typed\n`)
    expect(messages).toEqual([{ step: 1 }, { step: 2 }])
  })

  test('opens what else may be read and written, and nothing else', async () => {
    const outside = temporaryFolder()
    writeFileSync(join(outside, 'given'), 'text')
    writeFileSync(join(outside, 'withheld'), 'text')
    const end = await sandboxed({
      ...script(
        `const fs = require('node:fs')
const [, outside] = process.argv
for (const act of [() => fs.readFileSync(outside + '/given'), () => fs.readFileSync(outside + '/withheld'),
  () => fs.writeFileSync(outside + '/given', '')])
  try { act(); console.log('done') } catch (e) { console.log(e.code) }`,
        outside,
      ),
      readable: [join(outside, 'given')],
    })
    expect(end.tail.stdout).toMatch(/^(done\n(ENOENT|EACCES)\nEACCES|EACCES\nEACCES\nEACCES)\n$/)
  })

  test('hands out all output before its end, and keeps the last of it', async () => {
    let bytes = 0
    const end = await sandboxed({
      ...script(`process.stdout.write('x'.repeat(3e6))`),
      onOutput: (chunk) => (bytes += chunk.length),
    })
    expect(end).toMatchObject({ outcome: 'exited', outputBytes: 3e6 })
    expect(bytes).toBe(3e6)
    // The ellipsis shows that there was more.
    expect(end.tail.stdout).toBe(`…${'x'.repeat(65_536)}`)
  })

  test('receives messages and output by their bytes', async () => {
    // Two bytes a letter, one unit of a JavaScript text.
    const write = `require('node:fs').writeSync(3, JSON.stringify('é'.repeat(1e4)) + '\\n')`
    const over = await sandboxed({ ...script(`for (;;) ${write}`), limits: { outputBytes: 1e6 } })
    expect(over.outcome).toBe('out-of-output')
    const within = await sandboxed({ ...script(write), limits: { outputBytes: 1e6 } })
    expect(within).toMatchObject({ outcome: 'exited', outputBytes: 20_003 })
  })

  test.for(['onOutput', 'onMessage'] as const)(
    'whose %s throws ends as our fault',
    async (callback) => {
      const end = await sandboxed({
        ...script(`console.log('out'); require('node:fs').writeSync(3, '1\\n')
setInterval(() => {}, 1000)`),
        [callback]: () => {
          throw new TypeError('a mistake of ours')
        },
      })
      expect(end).toMatchObject({ outcome: 'sandbox-failed', leftBehind: 0 })
      expect(sandboxFailure(end, 'the script')).toMatchObject({
        code: 'INTERNAL',
        message: 'TypeError: a mistake of ours',
        details: { stack: expect.stringContaining('sandbox.test.ts') },
      })
    },
  )

  test.for([
    ['a command that is not there', { command: '/nowhere/at/all', args: () => [] }],
    ['a folder to start in that is not there', { ...script('0'), cwd: '/nowhere' }],
  ] as const)('with %s never begins', async ([, options]) => {
    const end = await sandboxed(options)
    expect(end).toMatchObject({ outcome: 'sandbox-failed', leftBehind: 0 })
    expect(end.problem).toMatch(/nowhere/)
  })
})

describe('an end', () => {
  test.for([
    ['the command’s own', shell('exit 7'), { outcome: 'exited', exitCode: 7, signal: null }],
    ['a signal', shell('kill -SEGV $$'), { outcome: 'signalled', signal: 'SIGSEGV' }],
    ['a crash that says nothing of memory', script('process.abort()'), { outcome: 'signalled' }],
  ] as const)('is %s', async ([, options, end]) => {
    expect(await sandboxed(options)).toMatchObject(end)
  })

  test.for([
    ['a deadline', new DeadlineReached(100), 'out-of-time'],
    ['a cancellation', new Error('cancelled'), 'cancelled'],
  ] as const)('is %s, and the command was asked first', async ([, reason, outcome]) => {
    const stop = new AbortController()
    const end = await sandboxed({
      ...script(`process.on('SIGINT', () => { console.log('asked'); process.exit(5) })
setInterval(() => {}, 1000); console.log('ready')`),
      ask: { signal: 'SIGINT', to: 'leader', graceMs: 5000 },
      signal: stop.signal,
      onOutput: (chunk) => (chunk.includes('ready') ? stop.abort(reason) : undefined),
    })
    expect(end).toMatchObject({ outcome, exitCode: 5, leftBehind: 0 })
    expect(end.tail.stdout).toBe('ready\nasked\n')
  })

  test('comes also when it was cancelled before it began', async () => {
    const signal = AbortSignal.abort()
    const end = await sandboxed({ ...script('setInterval(() => {}, 1000)'), signal })
    expect(end).toMatchObject({ outcome: 'cancelled', leftBehind: 0 })
  })

  test('reports the usage', async () => {
    const text = `const b = Buffer.alloc(5e7, 1); while (process.cpuUsage().user < 3e5); require('node:fs').writeFileSync('f', b)`
    const { usage } = await sandboxed(script(text))
    expect(usage.cpuMs).toBeGreaterThan(200)
    expect(usage.peakMemoryBytes).toBeGreaterThan(5e7)
    expect(usage.diskBytes).toBeGreaterThanOrEqual(5e7)
    expect(usage.processesMax).toBe(1)
  })
})

describe('when one who watches dies', () => {
  // All of them have the folder in their arguments: not everybody may read their environment.
  const BUSY = 'setsid sh -c "sleep 1000; :" $1 & echo $$; sleep 1000; :'
  const busy = (folder: string) => ['-c', BUSY, 'sh', folder]

  test('the agent: the run ends with it, and its folder goes', async () => {
    const root = temporaryFolder()
    const standIn = await startStandIn(root, 'root')
    const on = Promise.withResolvers<void>()
    const order = { command: '/bin/sh', args: busy('{folder}'), echo: true }
    void standIn.run(order, () => on.resolve()).then(on.reject)
    await on.promise
    expect(processesWith(join(root, 'run-'))).not.toEqual([])
    await standIn.kill()
    await eventually(() => processesWith(join(root, 'run-')).length === 0)
    await eventually(() => !readdirSync(root).some((name) => name.startsWith('run-')))
  })

  test.each([
    ['dies', 'SIGKILL'],
    ['hangs', 'SIGSTOP'],
  ] as const)('the supervisor %s: the agent ends the run and says so', async (_, signal) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const stop = new AbortController()
    const end = await sandboxed({
      command: '/bin/sh',
      args: busy,
      signal: stop.signal,
      onOutput(chunk) {
        process.kill(parentWithCommand(Number(chunk.toString()), 'supervisor.ts'), signal)
        if (signal === 'SIGKILL') return
        stop.abort()
        // The grace of the run, and then that of its supervisor.
        vi.advanceTimersByTime(LIMITS.supervisorLateMsMax + 10_000)
      },
    })
    expect(end).toMatchObject({ outcome: 'sandbox-failed', leftBehind: 0 })
    expect(end.problem).toContain('SIGKILL')
    expect(processesWith(end.folder)).toEqual([])
  })
})

describe('where the system does not let the supervisor be asked, as in a sandbox', () => {
  const project = dirname(dirname(import.meta.dirname))
  const inner = (isolation: 'require' | 'best') => ({
    args: (folder: string) => [
      '--input-type=module',
      '-e',
      `import { createSandbox } from '${project}/src/sandbox/sandbox.ts'
import { mkdirSync } from 'node:fs'
mkdirSync('inner')
const limits = ${JSON.stringify({ wallMs: 9e3, cpuMs: 9e3, memoryBytes: 5e8, processes: 50, outputBytes: 1e6, diskBytes: 1e8, fileBytes: 1e8, openFiles: 999 })}
const sandbox = createSandbox({ network: { blocked: [], allowed: [] }, isolation: '${isolation}', firstUserId: 1 })
const end = await sandbox.run({ command: '/bin/sh', args: ['-c', 'echo ran \\$WAY'], folder: '${folder}/inner', limits,
  proxy: { port: 1, environment: { WAY: 'by proxy' }, when: 'unenforced' } }, new AbortController().signal)
sandbox.close()
console.log(JSON.stringify(end))
process.exit()`,
    ],
    readable: [project],
  })

  test('nothing runs, and it is said why', async () => {
    const { tail } = await sandboxed(inner('require'))
    const end = { outcome: 'sandbox-failed', problem: expect.stringMatching(/seccomp/) }
    expect(JSON.parse(tail.stdout)).toMatchObject(end)
  })

  test('it runs, and is led to its proxy, where the operator takes the best that there is', async () => {
    const { tail } = await sandboxed(inner('best'))
    expect(JSON.parse(tail.stdout)).toMatchObject({
      outcome: 'exited',
      layers: { ownUser: false, network: false },
      tail: { stdout: 'ran by proxy\n' },
    })
  })
})

test.each([
  ['none where it goes straight', 'unenforced', 'way:\n'],
  ['named where all must go through it', 'always', 'way: by proxy\n'],
] as const)('where connections are evaluated, a proxy is %s', async (_, when, said) => {
  const end = await sandboxed({
    command: '/bin/sh',
    args: () => ['-c', 'echo way: $WAY'],
    proxy: { port: 1, environment: { WAY: 'by proxy' }, when },
  })
  expect(end.tail.stdout).toBe(said)
})
