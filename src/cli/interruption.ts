// Ctrl-C and SIGTERM for commands that run to completion. The first signal cancels the work, and the results so far
// are still shown. The second one ends the process.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { programEnvironment } from '../process/env.ts'
import { onSignals, type StopSignal } from '../process/signals.ts'
import { showProgress } from './settings.ts'

/** The interruption of a command by a signal; its disposal removes the signal handlers. */
export interface Interruption extends Disposable {
  /** Aborted by the first signal. */
  readonly signal: AbortSignal
  /** The exit code: 128 + the signal's number once there was one, as in a shell; else the given code. */
  codeOr(code: number): number
}

/** Handles signals from now on; a second one removes `folders`. `command`: says at once that it is ending. */
export function onInterrupt(
  command?: string,
  folders: ReadonlySet<string> = new Set(),
): Interruption {
  const stop = new AbortController()
  let received: StopSignal | undefined
  const off = onSignals({
    stop(signal) {
      received = signal
      showProgress('')
      if (command !== undefined) {
        process.stderr.write(`vedette ${command}: stopping; repeat to stop immediately\n`)
      }
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
    [Symbol.dispose]: off,
  }
}

/** Removes them in a process that outlives this one: they may be large, and the user does not wait any more. */
function removeLater(folders: ReadonlySet<string>): void {
  if (folders.size === 0) return
  const options = { env: programEnvironment(), detached: true, stdio: 'ignore' } as const
  spawn('rm', ['-rf', '--', ...folders], options)
    .on('error', () => {})
    .unref()
}
