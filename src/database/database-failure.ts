// Classification of PostgreSQL failures: callers choose an answer by kind, never by the text of a message.
import { DatabaseError } from 'pg'

/**
 * - `unavailable`: no connection, or it was lost; what was under way may or may not have happened
 * - `conflict`: serialization failure, deadlock or lock time-out; the same transaction may be tried again
 * - `timeout`: the statement took longer than it may
 * - `unique`: the row is a duplicate by the rule of the table that `constraint` names
 * - `other`: a fault of ours or of the database's settings
 */
export type DatabaseFailureKind = 'unavailable' | 'conflict' | 'timeout' | 'unique' | 'other'

export interface DatabaseFailure {
  kind: DatabaseFailureKind
  /** SQLSTATE (PostgreSQL manual, appendix A), code of the operating system, or UNKNOWN. */
  code: string
  /** The constraint that was broken, where one was. */
  constraint?: string
}

/** A failure to reach the database; thrown where the driver has no own error. */
export class DatabaseUnavailableError extends Error {
  readonly code = 'UNAVAILABLE'

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'DatabaseUnavailableError'
  }
}

/** SQLSTATE of a disk that is full. */
export const DISK_FULL = '53100'

const KINDS: Record<string, DatabaseFailureKind> = {
  '23505': 'unique',
  '40001': 'conflict',
  '40P01': 'conflict',
  '55P03': 'conflict',
  '57014': 'timeout',
  // Shutdown, crash, starting up, and a session ended for being idle.
  '57P01': 'unavailable',
  '57P02': 'unavailable',
  '57P03': 'unavailable',
  '57P05': 'unavailable',
  '25P03': 'unavailable',
  // Read-only after a fail-over: the writer is somewhere else now.
  '25006': 'unavailable',
  // Disk full, out of memory, too many connections.
  [DISK_FULL]: 'unavailable',
  '53200': 'unavailable',
  '53300': 'unavailable',
  // Prepared statements that another session has: a pooler changed the session.
  '26000': 'unavailable',
  '42P05': 'unavailable',
  UNAVAILABLE: 'unavailable',
}

const CLASSES: Record<string, DatabaseFailureKind> = { '08': 'unavailable', '40': 'conflict' }

// The driver gives these as plain errors without a code.
const LOST = /connection terminated|connection error|timeout (?:expired|exceeded)|read timeout/i

/** Classifies the error of a statement; undefined when it is not from the database or its driver. */
export function databaseFailure(error: unknown): DatabaseFailure | undefined {
  if (!(error instanceof Error)) return undefined
  const code = (error as { code?: unknown }).code
  if (error instanceof DatabaseError) {
    const state = error.code ?? 'UNKNOWN'
    // FATAL ends the session, whatever the reason.
    const ended = error.severity === 'FATAL' || error.severity === 'PANIC'
    const kind = ended ? 'unavailable' : (KINDS[state] ?? CLASSES[state.slice(0, 2)] ?? 'other')
    return {
      kind,
      code: state,
      ...(error.constraint === undefined ? {} : { constraint: error.constraint }),
    }
  }
  if (error instanceof DatabaseUnavailableError) return { kind: 'unavailable', code: error.code }
  const isSystem = typeof code === 'string' && 'syscall' in error
  if (isSystem) return { kind: 'unavailable', code }
  if (LOST.test(error.message)) return { kind: 'unavailable', code: 'LOST' }
  return undefined
}

/** Whether the database could not be reached or the connection was lost. */
export function isUnavailable(error: unknown): boolean {
  return databaseFailure(error)?.kind === 'unavailable'
}

/** Whether `constraint` (a unique index or key) refused the row. */
export function isDuplicate(error: unknown, constraint?: string): boolean {
  const failure = databaseFailure(error)
  if (failure?.kind !== 'unique') return false
  return constraint === undefined || failure.constraint === constraint
}
