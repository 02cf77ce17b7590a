// The log of a long-running process: pino's JSON lines, or lines that people read on a terminal.
import pino, { type Logger, type LoggerOptions } from 'pino'
import { createLineWriter } from './line-writer.ts'
import { prettyLine } from './pretty-line.ts'

export type Log = Logger

/** Least important first. */
const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export interface LineSink {
  write(line: string): void
}

type LogFnHook = NonNullable<NonNullable<LoggerOptions['hooks']>['logMethod']>

const ERROR_LEVEL = pino.levels.values['error'] ?? 50

/** Logged when lines fit again. */
export const DROPPED = 'log lines were dropped: standard output was not read in time'

export interface LogOptions {
  level: LogLevel
  pretty: boolean
  colour?: boolean
  /** Standard output by default. */
  destination?: LineSink
  /** Removes secrets from the fields of a line, before they become text. */
  scrubFields?: (fields: Record<string, unknown>) => Record<string, unknown>
  /** Removes secrets from each text of a line; its structure stays, for any secret. */
  scrubText?: (text: string) => string
  /** Receives each error object that is logged at level error. */
  onError?: ((error: unknown) => void) | undefined
}

/**
 * Makes a log. After its reader has closed, it writes nothing; a stalled reader costs lines, which are counted;
 * neither holds the process up. Lines still on their way are lost by `process.exit()`, not by a natural end.
 */
export function createLog(options: LogOptions): Log {
  const { level, pretty, colour = false, scrubFields, scrubText, onError } = options
  const out =
    options.destination ?? createLineWriter({ onDropped: (lines) => log.warn({ lines }, DROPPED) })
  const destination = pretty
    ? { write: (line: string) => out.write(prettyLine(line, colour)) }
    : out
  const log = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: pino.stdSerializers.err },
      formatters: {
        level: (label) => ({ level: label }),
        ...(scrubFields === undefined ? {} : { log: scrubFields }),
      },
      hooks: {
        ...(scrubText !== undefined && {
          streamWrite: (line: string) => scrubbedLine(line, scrubText),
        }),
        ...(onError !== undefined && { logMethod: errorHookOf(onError) }),
      },
    },
    destination,
  )
  return log
}

const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/

/** Fails closed: of a line that cannot be scrubbed, level and time are left. */
function scrubbedLine(line: string, scrubText: (text: string) => string): string {
  const isOurs = (key: string, value: string) =>
    (key === 'time' && TIME.test(value)) ||
    (key === 'level' && LOG_LEVELS.some((level) => level === value))
  try {
    const clean = (key: string, value: unknown) =>
      typeof value !== 'string' || isOurs(key, value) ? value : scrubText(value)
    return `${JSON.stringify(JSON.parse(line), clean)}\n`
  } catch {
    const time = new Date().toISOString()
    return `${JSON.stringify({ level: 'error', time, msg: '[scrubbed]' })}\n`
  }
}

function errorHookOf(onError: (error: unknown) => void): LogFnHook {
  return function logMethod(args, method, level) {
    const [fields] = args as unknown[]
    if (level >= ERROR_LEVEL && typeof fields === 'object' && fields !== null && 'err' in fields) {
      onError(fields.err)
    }
    method.apply(this, args)
  }
}

/** Properties of a stream that might be a terminal. */
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
