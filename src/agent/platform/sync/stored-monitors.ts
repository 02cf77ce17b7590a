// The last monitors on disk, for a restart while the platform is away. Written as a whole some time after a
// change, encrypted; what is damaged or encrypted under another key is ignored.
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import * as z from 'zod'
import type { Log } from '../../../process/log.ts'
import type { AssignedMonitor } from './assigned-monitors.ts'
import type { StoredTime } from '../../schedule/stored-clock.ts'
import { answerOf, type ReadAnswer } from './answer.ts'

/** Encrypted small files: the part of an agent's folder that is needed here. */
export interface FileStore {
  /** Undefined where nothing can be stored. */
  readonly path: string | undefined
  store(name: string, bytes: AsyncIterable<Buffer>): Promise<void>
  /** Calls back once when the folder becomes available. */
  onAvailable?(callback: () => void): void
  read(name: string): Promise<Buffer | undefined>
}

/** The answer as stored, without its changes. */
export type StoredAnswer = Pick<ReadAnswer, 'location' | 'revision' | 'settings'> & {
  variables: NonNullable<ReadAnswer['changes']>['variables']
}

/** What is stored. */
export interface MonitorsToStore {
  answer: StoredAnswer
  monitors: Iterable<AssignedMonitor>
  time: StoredTime
}

/** Stored monitors, as the answer that would assign them. */
export interface RestoredMonitors {
  answer: ReadAnswer
  time: StoredTime
}

const NAME = 'monitors'
/** Serialized, encrypted and written at a time. */
const PIECE_CHARACTERS = 256 * 1024
/** Changes come in bursts, and each writes all of it. */
const SOON_MS = 2000
/** Before what could not be written is written again. */
const AGAIN_MS = 30_000

/** Stores monitors in an agent's folder. */
export class StoredMonitors {
  readonly #folder: FileStore
  readonly #log: Log
  #timer: NodeJS.Timeout | undefined
  #waiting: (() => MonitorsToStore) | undefined
  #writing = Promise.resolve()
  #isReported = false
  #isOver = false

  constructor(folder: FileStore, log: Log) {
    this.#folder = folder
    this.#log = log
  }

  /** Calls `what` after a delay and stores it; further calls until then replace `what`. */
  soon(what: () => MonitorsToStore, ms = SOON_MS): void {
    if (this.#waiting === undefined) {
      this.#timer = setTimeout(() => void this.#writeWaiting(), ms).unref()
    }
    this.#waiting = what
  }

  /** The stored monitors, if they can be read. Never rejects. */
  async read(): Promise<RestoredMonitors | undefined> {
    const bytes = await this.#folder.read(NAME).catch(() => undefined)
    const stored = bytes === undefined ? undefined : parsed(bytes)
    if (stored === undefined && (await isThere(this.#folder))) {
      this.#log.warn(
        'the stored monitors cannot be read, or belong to another key; they are ignored',
      )
    }
    return stored
  }

  /** Stores what is still pending. */
  flush(): Promise<void> {
    this.#isOver = true
    return this.#writeWaiting()
  }

  #writeWaiting(): Promise<void> {
    const what = this.#waiting
    this.#waiting = undefined
    clearTimeout(this.#timer)
    if (what !== undefined) this.#writing = this.#writing.then(() => this.#write(what))
    return this.#writing
  }

  async #write(what: () => MonitorsToStore): Promise<void> {
    if (this.#folder.path === undefined) return
    try {
      await this.#folder.store(NAME, textOf(what()))
      this.#isReported = false
    } catch (error) {
      if (!this.#isReported) {
        this.#log.warn({ err: error }, 'the monitors cannot be stored for a restart')
      }
      this.#isReported = true
      if (this.#waiting === undefined && !this.#isOver) this.soon(what, AGAIN_MS)
    }
  }
}

/** In pieces, so that ten thousand monitors do not block the event loop and are never in memory twice. */
async function* textOf({ answer, monitors, time }: MonitorsToStore): AsyncGenerator<Buffer> {
  const { variables, ...rest } = answer
  const nothing = { receivedAt: 0, sentAt: 0, runs: [], cancel: [], peers: 0 }
  const head = JSON.stringify({ ...rest, ...nothing, ...time })
  const changes = `{"whole":true,"drop":[],"variables":${JSON.stringify(variables)},"set":[`
  let text = `${head.slice(0, -1)},"changes":${changes}`
  let separator = ''
  for (const { monitor, slots, from, until } of monitors) {
    text += separator + JSON.stringify({ monitor, slots, from, until })
    separator = ','
    if (text.length < PIECE_CHARACTERS) continue
    yield Buffer.from(text)
    text = ''
  }
  yield Buffer.from(`${text}]}}`)
}

/** Earlier versions stored less. */
const Time = z.object({
  keptAt: z.number().catch(0),
  aheadMs: z.number().catch(0),
  bootId: z.string().optional().catch(undefined),
  sinceBootMs: z.number().catch(0),
})

function parsed(bytes: Buffer): RestoredMonitors | undefined {
  try {
    const value = JSON.parse(bytes.toString()) as unknown
    return { answer: answerOf(value), time: Time.parse(value) }
  } catch {
    return undefined
  }
}

async function isThere({ path }: FileStore): Promise<boolean> {
  if (path === undefined) return false
  const found = await stat(join(path, NAME)).catch(() => undefined)
  return found !== undefined
}
