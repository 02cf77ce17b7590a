// PostgreSQL's own log lines in ours, at the level that matters to the platform's operator.
import type { Log, LogLevel } from '../../process/log.ts'

/** A statement that fails is the concern of the code that sent it, so ERROR is no error here. */
const LEVELS: Record<string, LogLevel> = {
  LOG: 'debug',
  INFO: 'debug',
  NOTICE: 'debug',
  ERROR: 'debug',
  WARNING: 'warn',
  FATAL: 'debug',
  PANIC: 'error',
}
const LINE_CHARS_MAX = 2000
const LINE = /^([A-Z]+[0-9]?): +(.*)$/

/** Receives the output of PostgreSQL, in pieces of any size. */
export class PostgresLog {
  readonly #log: Log
  #rest = ''
  #grave = ''

  constructor(log: Log) {
    this.#log = log
  }

  /** The last fatal message. */
  get finalMessage(): string {
    return this.#grave
  }

  write(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = (lines.pop() ?? '').slice(-LINE_CHARS_MAX)
    for (const line of lines) this.#line(line.slice(0, LINE_CHARS_MAX))
  }

  #line(line: string): void {
    const [, severity = '', message = line] = LINE.exec(line) ?? []
    if (message.trim() === '') return
    // Errors of the loader have no severity.
    if (['FATAL', 'PANIC', ''].includes(severity)) this.#grave = message
    this.#log[LEVELS[severity] ?? 'debug']({ postgres: severity }, message)
  }
}
