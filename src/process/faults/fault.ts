// Types for faults of the program itself: the fault, its event in Sentry's protocol, and the outcome of its report.

/** An error of the program itself. */
export interface Fault {
  /** Name of the error's class, or a code. */
  type: string
  message: string
  /** In the engine's format. */
  stack?: string | undefined
}

/** Outcomes of a fault's report. */
export const FAULT_OUTCOMES = ['sent', 'failed', 'repeated', 'limited', 'overflow'] as const
export type FaultOutcome = (typeof FAULT_OUTCOMES)[number]

/** A place in the program. Sentry's protocol names it so, and wants the place of the fault last. */
export interface EventFrame {
  function?: string
  filename: string
  lineno: number
  /** Ours, and not that of a package or of Node.js. */
  in_app: boolean
}

/** One error. */
export interface EventException {
  type: string
  value: string
  stacktrace?: { frames: EventFrame[] }
  mechanism: { type: string; handled: boolean }
}

/** The report of a fault. */
export interface FaultEvent {
  /** 32 hexadecimal digits. */
  event_id: string
  /** Seconds since 1970. */
  timestamp: number
  platform: 'node'
  level: 'error' | 'fatal'
  release: string
  contexts: {
    os: { name: string; version: string }
    device: { arch: string }
    runtime: { name: 'node'; version: string }
  }
  /** An error after those that caused it. */
  exception: { values: EventException[] }
}

/** An answer of a receiver; names of headers in lower case. */
export interface ReceiverAnswer {
  status: number
  headers: Readonly<Record<string, string | string[] | undefined>>
}

/** Receives events. */
export interface FaultReceiver {
  /** Rejects when there is no answer in time. */
  take(event: FaultEvent, deadlineMs: number): Promise<ReceiverAnswer>
}
