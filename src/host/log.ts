// The log of a long-running process: pino's JSON lines, or lines that people read on a terminal.
// Written synchronously, so that a line is out before the process can end.
import pino, { type Logger } from 'pino'
import { prettyLine } from './pretty-line.ts'

export type Log = Logger

/** Least important first. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** Whatever takes finished lines. */
export interface LineSink {
  write(line: string): void
}

/** How to log. */
export interface LogOptions {
  level: LogLevel
  /** Readable lines instead of JSON. */
  pretty: boolean
  /** Colours in readable lines. */
  colour?: boolean
  /** Standard output by default. */
  destination?: LineSink
  /** Takes secrets out of the fields of a line, before they become text. */
  scrubFields?: (fields: Record<string, unknown>) => Record<string, unknown>
  /** Takes secrets out of the finished text of a line. */
  scrubLine?: (line: string) => string
}

/** Makes a log. A reader that goes away (EPIPE) silences it and ends nothing. */
export function createLog(options: LogOptions): Log {
  const { level, pretty, colour = false, scrubFields, scrubLine } = options
  const out = options.destination ?? standardOutput()
  const destination = pretty
    ? { write: (line: string) => out.write(prettyLine(line, colour)) }
    : out
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: pino.stdSerializers.err },
      formatters: {
        level: (label) => ({ level: label }),
        ...(scrubFields === undefined ? {} : { log: scrubFields }),
      },
      ...(scrubLine === undefined ? {} : { hooks: { streamWrite: scrubLine } }),
    },
    destination,
  )
}

// pino's own destination drops what it cannot write when the reader has gone.
function standardOutput(): LineSink {
  const stream = pino.destination({ dest: 1, sync: true })
  return { write: (line) => void stream.write(line) }
}

/** What is known about a stream that might be a terminal. */
export interface Terminal {
  isTTY?: boolean | undefined
}

/** Whether lines are read by a person: the stream is a terminal. */
export function isForPeople(stream: Terminal): boolean {
  return stream.isTTY === true
}

/** Whether to colour: on a terminal, unless NO_COLOR (no-color.org) or a dumb terminal forbids it. */
export function mayColour(stream: Terminal, env: Record<string, string | undefined>): boolean {
  const forbidden = (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb'
  return isForPeople(stream) && !forbidden
}
