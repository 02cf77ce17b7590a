// Resources of a PostgreSQL server on this machine: all its processes, including ended ones.
import { readdirSync, readFileSync } from 'node:fs'
import type { Database } from '../../../src/database/database.ts'
import { cpuMsOf } from '../process-figures.ts'

/** Processes of the server behind a connection: its first one, and that one's children. */
export interface PostgresProcesses {
  /** User and system time so far. Milliseconds. */
  cpuMs(): number
  /** Memory, with shared pages counted once. MiB. */
  memoryMiB(): number
}

/** Finds the server; it must run on this machine, as a user whose memory figures are readable. */
export async function postgresProcesses(database: Database): Promise<PostgresProcesses> {
  const [row] = await database.query<{ pid: number }>('select pg_backend_pid() as pid')
  if (row === undefined) throw new Error('a connection has a process')
  const first = Number(fieldsOf(row.pid)[1])
  const all = () => [first, ...childrenOf(first)]
  return {
    cpuMs: () =>
      all().reduce((ms, pid) => ms + (attempt(() => cpuMsOf(pid)) ?? 0), 0) + reaped(first),
    memoryMiB: () => all().reduce((mib, pid) => mib + (attempt(() => shareMiBOf(pid)) ?? 0), 0),
  }
}

/** The fields of /proc/<pid>/stat after the name. */
function fieldsOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

/** Time of children that have ended. Milliseconds; the kernel counts hundredths of seconds. */
function reaped(pid: number): number {
  const fields = fieldsOf(pid)
  return (Number(fields[13]) + Number(fields[14])) * 10
}

function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((one) => Number.isInteger(one))
    .filter((one) => attempt(() => Number(fieldsOf(one)[1])) === pid)
}

function shareMiBOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) / 1024
}

/** Undefined when the process has ended in the meantime. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}
