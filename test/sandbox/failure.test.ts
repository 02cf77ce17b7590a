// The failure of a run that was ended names the limit with its unit, the usage, and what raises the limit.
import { describe, expect, test } from 'vitest'
import { bytesText, durationText } from '../../src/contract/schema/amounts.ts'
import type { SandboxLimits, SandboxOutcome, SandboxEnd } from '../../src/sandbox/request.ts'
import { sandboxFailure } from '../../src/sandbox/failure.ts'
import { DeadlineReached } from '../../src/network/deadline.ts'
import { sandboxed, ROOMY } from '../support/sandbox/sandboxed.ts'

const MIB = 1_048_576
const shell = (text: string) => ({ command: '/bin/sh', args: () => ['-c', text] })
const script = (text: string) => ({ args: () => ['-e', text] })

/** Runs that are ended: the limit, the part of its code, the run, and what the message says of it. */
const FILLS = 'i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); done'
const FORKS = `const { spawn } = require('node:child_process')
setInterval(() => spawn('sleep', ['20']).on('error', () => {}), 1)`
const GROWS = 'const all = []; setInterval(() => all.push(Buffer.alloc(8e6, 1)), 2)'
const WAITS = 'setInterval(() => {}, 1000)'
const MEMORY = /used [\d.]+ [MG]iB of memory: the limit is 128 MiB$/
const CPU = /used (\d{3} ms|[1-9][\d.]* s) of processor time: the limit is 250 ms$/
const OUTPUT = /wrote [2-9](\.\d+)? MiB of output: the limit is 2 MiB$/
const ROWS: [Partial<SandboxLimits>, string, Parameters<typeof sandboxed>[0], RegExp][] = [
  [{ memoryBytes: 128 * MIB }, 'MEMORY', script(GROWS), MEMORY],
  [{ cpuMs: 250 }, 'CPU', script('for (;;);'), CPU],
  [{ diskBytes: 8 * MIB }, 'DISK', shell(FILLS), /used [\d.]+ [MG]iB on disk: .* is 8 MiB$/],
  [{ fileBytes: MIB }, 'DISK', shell('exec head -c 10000000 /dev/zero > f'), /a file .* 1 MiB$/],
  [{ outputBytes: 2 * MIB }, 'OUTPUT', shell('yes'), OUTPUT],
  [{ processes: 12 }, 'PROCESSES', script(FORKS), /beyond the limit of 12 at a time$/],
  [{ wallMs: 200 }, 'TIME', script(WAITS), /took longer than the limit of 200 ms$/],
]

test.for(ROWS)('a run that passes %j', async ([limits, what, options, says]) => {
  const code = what === 'TIME' ? 'TIMEOUT_RUN' : `RUN_OUT_OF_${what}`
  const end = await sandboxed({ ...options, limits })
  const failed = sandboxFailure(end, 'the script')
  expect(failed).toMatchObject({ code, message: expect.stringMatching(/^the script /) })
  expect(failed?.message).toMatch(says)
  // A file that is too large counts to the disk.
  const limit = limits.fileBytes === undefined ? limits : { diskBytes: ROOMY.diskBytes }
  expect(failed?.details).toEqual({ usage: end.usage, limit })
})

test('the time of a deadline is the deadline’s', async () => {
  const signal = AbortSignal.abort(new DeadlineReached(90_000))
  const end = await sandboxed({ ...script(WAITS), signal })
  expect(sandboxFailure(end, 'the script')?.message).toBe(
    'the script took longer than the limit of 1 min 30 s',
  )
})

describe('what raises it', () => {
  const ended = (outcome: SandboxOutcome, more: Partial<SandboxEnd>) =>
    ({
      outcome,
      limits: { ...ROOMY, memoryBytes: 1024 * MIB },
      usage: { wallMs: 1, cpuMs: 1, peakMemoryBytes: 700.5 * MIB, processesMax: 1, diskBytes: 0 },
      ...more,
    }) as SandboxEnd

  test('is said of a heap, where its monitor may set it', async () => {
    const end = await sandboxed({
      args: () => ['--max-old-space-size=32', '-e', 'const a = []; for (;;) a.push({ a: [1.5] })'],
    })
    expect(sandboxFailure(end, 'the script')?.message).toMatch(
      /^the script filled the heap of its engine(, and used [\d.]+ [KM]iB of memory)?: the limit of all is 1 GiB$/,
    )
    expect(sandboxFailure(end, 'the tests', 'THAT')?.message).toMatch(
      /the limit of all is 1 GiB; THAT gives it more heap$/,
    )
  })

  test.for<[Partial<SandboxEnd>, RegExp]>([
    [{ memoryBytesWanted: 2048 * MIB }, /700\.5 MiB .*limit is 1 GiB.*container.*up to 2 GiB$/],
    [{ scarce: 'container' }, /700\.5 MiB .*container.*limit is 1 GiB.*JOB_CONCURRENCY/],
  ])('is said of the container where %j', ([more, expected]) => {
    expect(sandboxFailure(ended('out-of-memory', more), 'the tests')?.message).toMatch(expected)
  })
})

test.for<[number, string, string]>([
  [0, '0 B', '0 B'],
  [2 ** 31, '2 GiB', '2 GiB'],
  [2 ** 31 + 4096, '2 GiB', '2.01 GiB'],
  [7_301_444_403, '6.8 GiB', '6.8 GiB'],
])('%i bytes are %s', ([bytes, near, up]) => {
  expect([bytesText(bytes), bytesText(bytes, 'up')]).toEqual([near, up])
})

test.for<[number, string]>([
  [250, '250 ms'],
  [12_500, '12.5 s'],
  [59_999, '59.999 s'],
  [5_405_000, '1 h 30 min 5 s'],
])('%i ms are %s', ([ms, text]) => {
  expect(durationText(ms)).toBe(text)
})
