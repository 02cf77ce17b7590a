// Ctrl-C and SIGTERM for commands that run to completion: the first signal cancels the run, whose results so far
// are still shown; the second one ends the process.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { onSignals, type StopSignal } from '../process/signals.ts'

/** The interruption of a command by a signal. */
export interface Interruption {
  /** Aborted by the first signal. */
  readonly signal: AbortSignal
  /** The exit code: 128 + the signal's number once there was one, as in a shell; else the given code. */
  codeOr(code: number): number
  /** Removes the signal handlers. */
  over(): void
}

/** Reactions to a signal. */
export interface InterruptionOptions {
  /** Prints at once what the signal does. */
  say: () => void
  /** Folders to remove after a second signal. */
  folders?: ReadonlySet<string>
}

/** Handles signals from now on. */
export function onInterrupt({ say, folders = new Set() }: InterruptionOptions): Interruption {
  const stop = new AbortController()
  let received: StopSignal | undefined
  const over = onSignals({
    stop(signal) {
      received = signal
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
    codeOr: (code) => (received === undefined ? code : 128 + constants.signals[received]),
    over,
  }
}

/** Removes them in a process that outlives this one: they may be large, and the user does not wait any more. */
function removeLater(folders: ReadonlySet<string>): void {
  if (folders.size === 0) return
  const options = { detached: true, stdio: 'ignore' } as const
  spawn('rm', ['-rf', '--', ...folders], options)
    .on('error', () => {})
    .unref()
}
