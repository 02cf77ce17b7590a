// A real `vedette platform`, started as a user starts it, and the processes below it.
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'

const alive = new Set<ChildProcess>()

// Processes of a failed test must not outlive its file.
afterAll(() => {
  for (const child of alive) child.kill('SIGKILL')
})

const LAUNCH = fileURLToPath(new URL('../../../src/launch.js', import.meta.url))

/** Exit and output of a process. */
export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

/** A process of the program. */
export interface VedetteProcess {
  readonly pid: number
  readonly stdout: string
  readonly stderr: string
  kill(signal: NodeJS.Signals): void
  /** Resolves with the match when standard output has it; rejects when the process ends before. */
  line(pattern: RegExp): Promise<RegExpExecArray>
  readonly ended: Promise<Ended>
}

/** Starts the program, its command line behind the prefix; variables with `undefined` are not set. */
export function startVedette(
  args: readonly string[],
  env: Record<string, string | undefined>,
  prefix: readonly string[] = [],
): VedetteProcess {
  const [command = '', ...rest] = [...prefix, process.execPath, LAUNCH, ...args]
  return startProcess(command, rest, env)
}

/** Starts `npm run <script>` of the project; signals reach only npm, like those of a supervisor. */
export function startScript(script: string, env: Record<string, string>): VedetteProcess {
  const cwd = fileURLToPath(new URL('../../..', import.meta.url))
  return startProcess('npm', ['run', '--silent', script], env, cwd)
}

function startProcess(
  command: string,
  args: string[],
  env: Record<string, string | undefined>,
  cwd?: string,
): VedetteProcess {
  const { PATH, HOME } = process.env
  const child = spawn(command, args, {
    env: { PATH, HOME, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(cwd !== undefined && { cwd }),
  })
  alive.add(child)
  let isOver = false
  const waiting = new Set<() => void>()
  const notify = () => {
    for (const look of waiting) look()
  }
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code, signal) => {
      isOver = true
      alive.delete(child)
      notify()
      resolve({ code, signal, stdout: started.stdout, stderr: started.stderr })
    })
  })
  const started: VedetteProcess & { stdout: string; stderr: string } = {
    pid: child.pid ?? -1,
    stdout: '',
    stderr: '',
    kill: (signal) => void child.kill(signal),
    line: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const { stdout, stderr } = started
          const match = pattern.exec(stdout)
          if (match === null && !isOver) return
          waiting.delete(look)
          if (match !== null) resolve(match)
          else reject(new Error(`ended without ${pattern}:\n${stdout}${stderr}`))
        }
        waiting.add(look)
        look()
      }),
    ended,
  }
  child.stdout.on('data', (chunk: Buffer) => {
    started.stdout += chunk.toString()
    notify()
  })
  child.stderr.on('data', (chunk: Buffer) => void (started.stderr += chunk.toString()))
  return started
}

/** A platform that answers. */
export interface StartedPlatform extends VedetteProcess {
  url: string
  /** Its metrics are below it at /metrics. */
  metricsUrl: string
}

/** Starts a platform on free ports and waits until it answers. */
export async function startPlatform(
  env: Record<string, string | undefined>,
): Promise<StartedPlatform> {
  const ports = { PORT: '0', METRICS_PORT: '0', HOST: '127.0.0.1' }
  const started = startVedette(['platform'], { ...ports, ...env })
  const [, url = ''] = await started.line(/"url":"([^"]+)","msg":"platform started"/)
  const [, metricsUrl = ''] = await started.line(/"url":"([^"]+)\/metrics","msg":"metrics/)
  return Object.assign(started, { url, metricsUrl })
}

/** Ids of the processes whose command line contains all `parts`, without zombies. */
export function processesWith(...parts: string[]): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid)
    .filter((pid) => parts.every((part) => commandLine(pid).includes(part)))
}

/** Ids of the direct children of a process. */
export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .map(Number)
    .filter(Boolean)
}

/** The command line of a process; empty when it is gone. */
export function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
  } catch {
    return []
  }
}
