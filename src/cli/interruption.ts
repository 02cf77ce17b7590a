// Ctrl-C and SIGTERM of commands that run something to its end: the first one is answered at once and cancels
// what runs, so that what was recorded is still shown; the second one ends the process.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { onSignals, type StopSignal } from '../process/signals.ts'

/** Somebody's wish that a command ends, if it comes. */
export interface Interruption {
  /** Aborted by the first signal. */
  readonly signal: AbortSignal
  /** The exit code: as a shell has it, 128 + the signal's number, once there was one; else the given one. */
  codeOr(code: number): number
  /** No signal is listened to any more. */
  over(): void
}

/** What is to be done. */
export interface InterruptionOrder {
  /** Says on the terminal, at once, what the signal brings about. */
  say: () => void
  /** Folders that a second signal would leave behind. */
  folders?: ReadonlySet<string>
}

/** Listens for it from now on. */
export function hearInterruption({ say, folders = new Set() }: InterruptionOrder): Interruption {
  const stop = new AbortController()
  let told: StopSignal | undefined
  const over = onSignals({
    stop(signal) {
      told = signal
      say()
      stop.abort()
    },
    exit(code) {
      removeLater(folders)
      process.exit(code)
    },
  })
  return {
    signal: stop.signal,
    codeOr: (code) => (told === undefined ? code : 128 + constants.signals[told]),
    over,
  }
}

/** By a process that outlives this one: what a run has put there may be large, and nobody waits any more. */
function removeLater(folders: ReadonlySet<string>): void {
  if (folders.size === 0) return
  const options = { detached: true, stdio: 'ignore' } as const
  spawn('rm', ['-rf', '--', ...folders], options)
    .on('error', () => {})
    .unref()
}
