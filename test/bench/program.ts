// The program as a separate process, started as a user starts it, on a free port.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname } from 'node:path'
import { freePort } from '../support/network/free-port.ts'
import { answers } from '../support/network/nginx.ts'

/** A process of the program that is ready. */
export interface RunningProgram {
  pid: number
  /** Base URL of its probes and metrics. */
  url: string
  /** Stops it as a user would, and waits for its end. */
  close(): Promise<void>
}

const START_MS = 20_000

/**
 * Starts `vedette <command>` with its port in the variable `portName`. Resolves when `path` answers 200, rejects
 * after 20 s. With BENCH_PROFILES a CPU profile goes to that folder.
 */
export async function startProgram(
  command: string,
  portName: string,
  env: Record<string, string>,
  path = '/-/readiness',
): Promise<RunningProgram> {
  const port = await freePort()
  const launch = new URL('../../src/launch.js', import.meta.url).pathname
  const profiles = process.env['BENCH_PROFILES']
  const child = spawn(launch, [command], {
    env: {
      PATH: `${dirname(process.execPath)}:${process.env['PATH']}`,
      [portName]: String(port),
      ...(profiles && { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${profiles}` }),
      ...env,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const exited = once(child, 'exit')
  const kill = () => void child.kill()
  process.once('exit', kill)
  const url = `http://127.0.0.1:${port}`
  const ready = await answers(url + path, AbortSignal.timeout(START_MS))
  if (!ready || child.pid === undefined) throw new Error(`${command} did not become ready`)
  return {
    pid: child.pid,
    url,
    async close() {
      child.kill('SIGTERM')
      await exited
      process.off('exit', kill)
    },
  }
}
