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
  const { PATH, HOME } = process.env
  const [command = '', ...rest] = [...prefix, process.execPath, LAUNCH, ...args]
  const child = spawn(command, rest, {
    env: { PATH, HOME, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return new SpawnedProcess(child)
}

/** Starts `npm run <script>` of the project; signals reach only npm, like those of a supervisor. */
export function startScript(script: string, env: Record<string, string>): VedetteProcess {
  const { PATH, HOME } = process.env
  const child = spawn('npm', ['run', '--silent', script], {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    env: { PATH, HOME, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return new SpawnedProcess(child)
}

class SpawnedProcess implements VedetteProcess {
  readonly #child: ChildProcess
  readonly #waiting = new Set<() => void>()
  readonly ended: Promise<Ended>
  stdout = ''
  stderr = ''
  #isOver = false

  constructor(child: ChildProcess) {
    this.#child = child
    alive.add(child)
    child.stdout?.on('data', (chunk: Buffer) => {
      this.stdout += chunk.toString()
      this.#notify()
    })
    child.stderr?.on('data', (chunk: Buffer) => {
      this.stderr += chunk.toString()
    })
    this.ended = new Promise((resolve) => {
      child.once('close', (code, signal) => {
        this.#isOver = true
        alive.delete(child)
        this.#notify()
        resolve({ code, signal, stdout: this.stdout, stderr: this.stderr })
      })
    })
  }

  get pid(): number {
    return this.#child.pid ?? -1
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  line(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(this.stdout)
        if (match === null && !this.#isOver) return
        this.#waiting.delete(look)
        if (match !== null) resolve(match)
        else reject(new Error(`ended without ${pattern}:\n${this.stdout}${this.stderr}`))
      }
      this.#waiting.add(look)
      look()
    })
  }

  #notify(): void {
    for (const look of this.#waiting) look()
  }
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
