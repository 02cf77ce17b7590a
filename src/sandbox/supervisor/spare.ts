// Spare supervisor: one waits with its launcher, so that a run need not wait for either to start.
import { spawn, type ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { COMPILE_CACHE } from '../../process/compile-cache.ts'

const SUPERVISOR = fileURLToPath(new URL('./supervisor.ts', import.meta.url))
/** A supervisor lives short and holds little. */
const FLAGS = ['--max-semi-space-size=1', '--disable-warning=ExperimentalWarning']
/** The files of the run that is over come first: waking up takes a processor, too. */
const SPARE_AFTER_MS = 1_000
/** How long a spare waits after the last run. */
const SPARE_MS_MAX = 600_000

/** Starts a supervisor that waits for its order. Throws where the agent can open nothing any more. */
function spawnSupervisor(): ChildProcess {
  const supervisor = spawn(process.execPath, [...FLAGS, SUPERVISOR], {
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
    env: { NODE_COMPILE_CACHE: COMPILE_CACHE },
    // What a terminal sends to the agent is the agent's to pass on.
    detached: true,
  })
  // Why one cannot be started is reported later; there may be no listener yet.
  supervisor.on('error', ignore)
  // Node.js makes no streams where there are no descriptors for them.
  if ((supervisor.stdio as unknown) !== undefined) return supervisor
  throw new Error('a supervisor cannot be started: the agent has no file descriptors left')
}

/** Pool of supervisors with one spare. It does not keep the agent's process alive. */
export class SpareSupervisor {
  #spare: ChildProcess | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  /** One that waits already where there is one, else a new one. Throws where it cannot be started. */
  acquire(): ChildProcess {
    const spare = this.#spare
    this.#spare = undefined
    if (spare === undefined || spare.exitCode !== null || spare.signalCode !== null) {
      return spawnSupervisor()
    }
    for (const stream of socketsOf(spare)) {
      stream.removeListener('error', ignore)
      stream.ref()
    }
    spare.ref()
    return spare
  }

  /** Starts one to wait, where none does, in a moment; to be called when a run is over. */
  prepare(): void {
    clearTimeout(this.#timer)
    if (!this.#isClosed) this.#timer = setTimeout(() => this.#start(), SPARE_AFTER_MS).unref()
  }

  #start(): void {
    this.#timer = setTimeout(() => this.#dismiss(), SPARE_MS_MAX).unref()
    if (this.#spare !== undefined) return
    let spare: ChildProcess
    try {
      spare = spawnSupervisor()
    } catch {
      // The next run says what is wrong.
      return
    }
    this.#spare = spare
    spare.unref()
    for (const stream of socketsOf(spare)) {
      stream.on('error', ignore)
      stream.unref()
    }
  }

  /** Ends the spare; no other one is started. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#dismiss()
  }

  /** Closes the control pipe, on which it exits by itself. */
  #dismiss(): void {
    const spare = this.#spare
    this.#spare = undefined
    for (const stream of spare === undefined ? [] : socketsOf(spare)) stream.destroy()
  }
}

function socketsOf(child: ChildProcess): Socket[] {
  return child.stdio.filter((one) => one !== null) as Socket[]
}

const ignore = () => {}
