// One run of the embedded PostgreSQL, from its start to its end. It never outlives the platform: a
// watcher waits for the platform's end of a pipe to close, which even kill -9 does.
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { programEnvironment } from '../../process/env.ts'
import type { Log } from '../../process/log.ts'
import { type Database, openDatabase } from '../database.ts'
import { isUnavailable } from '../database-failure.ts'
import { EmbeddedPostgresError } from './embedded-postgres-error.ts'
import type { PostgresBinaries } from './binaries.ts'
import { POSTGRES_ROLE, type PostgresFolder } from './folder.ts'
import { PostgresLog } from './log.ts'
import type { PostgresUser } from './user.ts'

export interface PostgresRun {
  binaries: PostgresBinaries
  user: PostgresUser
  folder: PostgresFolder
  log: Log
  /** Names the socket; PostgreSQL listens on it where `settings` says so. */
  port?: number
  /** Additional settings of PostgreSQL, which override our own. */
  settings?: Readonly<Record<string, string>>
}

export interface PostgresEnd {
  code: number | null
  signal: NodeJS.Signals | null
}

// The watcher is a child of PostgreSQL, which replaces the shell and has its process id. The id is valid as long
// as PostgreSQL is the watcher's parent.
const WATCHED = `
  (
    read -r _ <&3
    read -r _ _ _ parent _ </proc/self/stat
    [ "$parent" = "$$" ] && kill -INT "$$"
  ) >/dev/null 2>&1 &
  exec 3<&-
  exec "$@"
`

/** Settings in addition to those that initdb chose for this machine. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '',
  unix_socket_permissions: '0700',
  max_connections: '60',
  shared_buffers: '64MB',
  max_wal_size: '512MB',
  min_wal_size: '80MB',
  wal_compression: 'on',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_destination: 'stderr',
  logging_collector: 'off',
  log_line_prefix: '',
  // Statements and their values must not appear in the log.
  log_error_verbosity: 'terse',
  log_min_error_statement: 'panic',
}

/** Recovery after a crash reads all that was written since the last checkpoint. */
const READY_MS = 600_000
const POLL_MS = 20
/** A fast shutdown writes a checkpoint; an immediate one leaves the work to the next start. */
const FAST_STOP_MS = 20_000
const IMMEDIATE_STOP_MS = 5000

export class PostgresProcess {
  readonly #child: ChildProcess
  readonly #log: PostgresLog
  readonly #socket: { socketFolder: string; port?: number }
  /** Resolves when it has ended, never rejects. */
  readonly ended: Promise<PostgresEnd>
  #end: PostgresEnd | undefined

  constructor({ binaries, user, folder, log, port, settings: others }: PostgresRun) {
    const named = port === undefined ? {} : { port: String(port) }
    const settings = { ...SETTINGS, unix_socket_directories: folder.run, ...named, ...others }
    const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const args = [...user.prefix, binaries.postgres, '-D', folder.data, ...options]
    this.#socket = { socketFolder: folder.run, ...(port === undefined ? {} : { port }) }
    this.#log = new PostgresLog(log)
    this.#child = spawn('/bin/sh', ['-c', WATCHED, 'vedette', ...args], {
      ...user.ids,
      cwd: folder.root,
      env: { ...programEnvironment(), LC_ALL: 'C' },
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      // Ctrl-C is for the platform alone, which first finishes its requests.
      detached: true,
    })
    const lifeline = this.#child.stdio[3] as Socket
    lifeline.on('error', () => undefined)
    this.#child.stderr?.on('data', (chunk: Buffer) => this.#log.write(chunk.toString()))
    this.ended = new Promise((resolve) => {
      const end = (code: number | null, signal: NodeJS.Signals | null) => {
        lifeline.destroy()
        this.#end = { code, signal }
        resolve(this.#end)
      }
      this.#child.once('error', (error) => {
        this.#log.write(`${error.message}\n`)
        end(null, null)
      })
      this.#child.once('exit', end)
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** How it ended; undefined while it runs. */
  get end(): PostgresEnd | undefined {
    return this.#end
  }

  get finalMessage(): string {
    return this.#log.finalMessage
  }

  /**
   * Resolves when statements are answered and `database` exists. Rejects with EmbeddedPostgresError
   * `START` when it ends before that, and with the signal's reason when that fires.
   */
  async ready(database: string, signal: AbortSignal): Promise<void> {
    const address = { ...this.#socket, user: POSTGRES_ROLE, database: 'postgres' }
    const probe = openDatabase({ address, applicationName: 'vedette start', connectionsMax: 1 })
    const deadline = performance.now() + READY_MS
    try {
      for (;;) {
        signal.throwIfAborted()
        if (this.#end !== undefined || performance.now() > deadline) throw this.#notStarted()
        if (await answers(probe)) break
        await Promise.race([sleep(POLL_MS), this.ended])
      }
      await createDatabase(probe, database)
    } finally {
      await probe.close()
    }
  }

  #notStarted(): EmbeddedPostgresError {
    const why = this.finalMessage === '' ? 'it printed nothing' : this.finalMessage
    return new EmbeddedPostgresError('START', `PostgreSQL does not start: ${why}`)
  }

  /** Stops it: sessions are closed and everything is written. Resolves when the process has ended. */
  async stop(): Promise<void> {
    const steps: [NodeJS.Signals, number][] = [
      ['SIGINT', FAST_STOP_MS],
      ['SIGQUIT', IMMEDIATE_STOP_MS],
      ['SIGKILL', IMMEDIATE_STOP_MS],
    ]
    for (const [signal, waitMs] of steps) {
      if (this.#end !== undefined) return
      this.#child.kill(signal)
      const cancel = new AbortController()
      await Promise.race([this.ended, sleep(waitMs, undefined, { signal: cancel.signal })])
      cancel.abort()
    }
  }
}

async function answers(probe: Database): Promise<boolean> {
  try {
    await probe.query('select 1')
    return true
  } catch (error) {
    if (isUnavailable(error)) return false
    throw error
  }
}

async function createDatabase(probe: Database, name: string): Promise<void> {
  const found = await probe.query('select 1 from pg_database where datname = $1', [name])
  if (found.length === 0) await probe.query(`create database "${name}"`)
}

/** Its watcher is most likely at work already. */
const WATCHER_MS = 1000
const LEFTOVER_POLL_MS = 10
/**
 * How long each signal is given: a fast shutdown, an immediate shutdown, and at last SIGKILL. None loses acknowledged
 * writes; after the last two the write-ahead log is replayed.
 */
const LEFTOVER_SIGNALS = [
  ['SIGINT', 7000],
  ['SIGQUIT', 7000],
  ['SIGKILL', 15_000],
] as const

/**
 * Ends a PostgreSQL that an earlier platform left running on this folder, and removes its leftover files.
 * The caller holds the lock of the folder.
 */
export async function endLeftover(folder: PostgresFolder, log: Log): Promise<void> {
  const file = join(folder.data, 'postmaster.pid')
  const pid = firstNumber(file)
  if (pid !== undefined) await endProcess(pid, folder, log)
  // These name a process too, and PostgreSQL would mistake another process of that number for itself, or a
  // zombie, as in a container without init.
  rmSync(file, { force: true })
  for (const name of readdirSync(folder.run)) {
    if (name.startsWith('.s.PGSQL.')) rmSync(join(folder.run, name), { force: true })
  }
}

async function endProcess(pid: number, { data }: PostgresFolder, log: Log): Promise<void> {
  if (await hasEnded(pid, data, WATCHER_MS)) return
  for (const [signal, waitMs] of LEFTOVER_SIGNALS) {
    log.warn({ pid, signal }, 'a PostgreSQL from an earlier run is still running; ending it')
    sendSignal(pid, signal)
    if (await hasEnded(pid, data, waitMs)) return
  }
  const message = `a PostgreSQL from an earlier run (process ${pid}) does not end; kill it manually`
  throw new EmbeddedPostgresError('START', message)
}

async function hasEnded(pid: number, data: string, waitMs: number): Promise<boolean> {
  const deadline = performance.now() + waitMs
  while (isPostgresOn(pid, data)) {
    if (performance.now() > deadline) return false
    await sleep(LEFTOVER_POLL_MS)
  }
  return true
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended since we looked.
  }
}

function firstNumber(file: string): number | undefined {
  try {
    const number = Number.parseInt(readFileSync(file, 'utf8'), 10)
    return Number.isInteger(number) && number > 1 ? number : undefined
  } catch {
    return undefined
  }
}

function isPostgresOn(pid: number, data: string): boolean {
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    return args.includes('-D') && args.includes(data)
  } catch {
    return false
  }
}
