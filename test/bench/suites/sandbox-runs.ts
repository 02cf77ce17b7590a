// Runs of user code by an agent's runner, for benches: see suites-child.ts.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Result } from '../../../src/contract/result.ts'

/** A run that has ended. */
export interface SandboxBenchRun {
  /** Milliseconds since the Unix epoch. */
  askedAt: number
  /** Until the result is there, its files are scrubbed and staged, and its folder is removed. */
  wallMs: number
  result: Result
  /** Of a suite's command. */
  output: string
}

/** A process that runs monitors on request. */
export interface SandboxRunner {
  pid: number
  run(monitor: object): Promise<SandboxBenchRun>
  close(): Promise<void>
}

const CHILD = new URL('suites-child.ts', import.meta.url).pathname

/** Starts a runner with all its data below `folder` and the engines and runtimes in `tools`. */
export function startSandboxRunner(folder: string, tools: string): SandboxRunner {
  const flags = ['--max-semi-space-size=12', '--heap-growing-percent=30']
  const child = spawn(process.execPath, [...flags, CHILD, folder, tools], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const waiting = new Map<number, (run: SandboxBenchRun) => void>()
  let last = 0
  createInterface({ input: child.stdout }).on('line', (line) => {
    const run = JSON.parse(line) as SandboxBenchRun & { number: number }
    waiting.get(run.number)?.(run)
    waiting.delete(run.number)
  })
  return {
    pid: child.pid as number,
    run(definition) {
      const { promise, resolve, reject } = Promise.withResolvers<SandboxBenchRun>()
      const number = ++last
      waiting.set(number, resolve)
      void exited.then(() => reject(new Error('the runner has died')))
      child.stdin.write(`${JSON.stringify({ number, definition })}\n`)
      return promise
    },
    async close() {
      child.stdin.end()
      await exited
    },
  }
}
