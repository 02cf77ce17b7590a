// Signals of a long-running process. The first SIGTERM or SIGINT asks it to stop, a second one ends it
// at once; SIGHUP asks it to read its settings anew.
import { constants } from 'node:os'

export type StopSignal = 'SIGTERM' | 'SIGINT'

/** What to do on signals. */
export interface SignalActions {
  /** Called in the tick in which the first SIGTERM or SIGINT arrives. */
  stop: (signal: StopSignal) => void
  /** Called on SIGHUP; without it SIGHUP stays what it is, the end of the process. */
  reload?: () => void
  /** Called on the second SIGTERM or SIGINT with 128 + the signal's number, as a shell has it. */
  exit?: (code: number) => void
}

/** What can be listened to for signals: `process`, or a stand-in. */
export interface SignalSource {
  on(signal: NodeJS.Signals, listener: () => void): unknown
  off(signal: NodeJS.Signals, listener: () => void): unknown
}

/** Listens until the returned function is called. SIGPIPE is left alone: Node reports it as EPIPE. */
export function onSignals(actions: SignalActions, source: SignalSource = process): () => void {
  let stopping = false
  const exit = actions.exit ?? ((code: number) => process.exit(code))
  const stopOn = (signal: StopSignal) => () => {
    if (stopping) {
      exit(128 + constants.signals[signal])
      return
    }
    stopping = true
    actions.stop(signal)
  }
  const listeners: [NodeJS.Signals, () => void][] = [
    ['SIGTERM', stopOn('SIGTERM')],
    ['SIGINT', stopOn('SIGINT')],
  ]
  const { reload } = actions
  if (reload !== undefined) listeners.push(['SIGHUP', reload])
  for (const [signal, listener] of listeners) source.on(signal, listener)
  return () => {
    for (const [signal, listener] of listeners) source.off(signal, listener)
  }
}
