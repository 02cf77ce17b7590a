// Signals of a long-running process. The first SIGTERM or SIGINT asks it to stop, a second one ends it
// at once; SIGHUP asks it to read its settings anew.
import { constants } from 'node:os'

export type StopSignal = 'SIGTERM' | 'SIGINT'

export interface SignalActions {
  /** Called in the tick in which the first SIGTERM or SIGINT arrives. */
  stop: (signal: StopSignal) => void
  /** Called on SIGHUP; without it SIGHUP ends the process, as by default. */
  reload?: () => void
  /** Called on the second SIGTERM or SIGINT with 128 + the signal's number, as a shell has it. */
  exit?: (code: number) => void
}

export interface SignalSource {
  on(signal: NodeJS.Signals, listener: () => void): unknown
  off(signal: NodeJS.Signals, listener: () => void): unknown
}

/**
 * A terminal sends SIGINT for Ctrl-C to every process of a command line, and npm forwards its own to its child:
 * both count as one signal.
 */
const ECHO_MS = 300

/**
 * Listens until the returned function is called, or to the end of the process once it received a signal. SIGINT
 * again within 300 ms is the same one. SIGPIPE is left alone: Node reports it as EPIPE.
 */
export function onSignals(
  actions: SignalActions,
  source: SignalSource = process,
  now: () => number = () => performance.now(),
): () => void {
  let first: { signal: StopSignal; at: number } | undefined
  const exit = actions.exit ?? ((code: number) => process.exit(code))
  const stopOn = (signal: StopSignal) => () => {
    if (first === undefined) {
      first = { signal, at: now() }
      actions.stop(signal)
      return
    }
    const isEcho = signal === 'SIGINT' && first.signal === 'SIGINT' && now() - first.at <= ECHO_MS
    if (!isEcho) exit(128 + constants.signals[signal])
  }
  const listeners: [NodeJS.Signals, () => void][] = [
    ['SIGTERM', stopOn('SIGTERM')],
    ['SIGINT', stopOn('SIGINT')],
  ]
  const { reload } = actions
  if (reload !== undefined) listeners.push(['SIGHUP', reload])
  for (const [signal, listener] of listeners) source.on(signal, listener)
  return () => {
    // A process that received a stop signal is about to end: a second signal still ends it with our exit code.
    if (first !== undefined) return
    for (const [signal, listener] of listeners) source.off(signal, listener)
  }
}
