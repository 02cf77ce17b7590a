// The last monitors on disk, for a restart while the platform is away. Written as a whole some time after a
// change, encrypted; what is damaged or encrypted under another key is ignored.
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
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

/** Stored monitors, as the answer that would assign them. */
export interface RestoredMonitors {
  answer: ReadAnswer
  time: StoredTime
}

export interface StoredMonitors {
  /** Calls `what` after a delay and stores it; further calls until then replace `what`. */
  soon(what: () => Parameters<StoredMonitors['now']>[0]): void
  /** Stores it now. Never rejects. */
  now(what: {
    answer: StoredAnswer
    monitors: Iterable<AssignedMonitor>
    time: StoredTime
  }): Promise<void>
  /** The stored monitors, if they can be read. Never rejects. */
  read(): Promise<RestoredMonitors | undefined>
  /** Stores what is still pending. */
  flush(): Promise<void>
}

const NAME = 'monitors'
/** Serialized, encrypted and written at a time. */
const PIECE_CHARACTERS = 256 * 1024
/** Changes come in bursts, and each writes all of it. */
const SOON_MS = 2000
/** Before what could not be written is written again. */
const AGAIN_MS = 30_000

/** Stores monitors in an agent's folder. */
export function createStoredMonitors(folder: FileStore, log: Log): StoredMonitors {
  let timer: NodeJS.Timeout | undefined
  let waiting: (() => Parameters<StoredMonitors['now']>[0]) | undefined
  let writing = Promise.resolve()
  let isReported = false
  let isOver = false

  /** Whether it is stored now, or need not be. */
  const write = async (what: Parameters<StoredMonitors['now']>[0]): Promise<boolean> => {
    if (folder.path === undefined) return true
    try {
      await folder.store(NAME, textOf(what))
      isReported = false
      return true
    } catch (error) {
      if (!isReported) log.warn({ err: error }, 'the monitors cannot be kept on disk for a restart')
      isReported = true
      return false
    }
  }
  const soon = (what: () => Parameters<StoredMonitors['now']>[0], ms: number) => {
    if (waiting === undefined) timer = setTimeout(() => void due(), ms).unref()
    waiting = what
  }
  const due = () => {
    const what = waiting
    waiting = undefined
    clearTimeout(timer)
    if (what === undefined) return writing
    const before = writing
    writing = (async () => {
      await before
      const isStored = await write(what())
      if (!isStored && waiting === undefined && !isOver) soon(what, AGAIN_MS)
    })()
    return writing
  }

  return {
    soon: (what) => soon(what, SOON_MS),
    now: (what) => write(what).then(() => undefined),
    flush() {
      isOver = true
      return due()
    },
    async read() {
      const bytes = await folder.read(NAME).catch(() => undefined)
      const stored = bytes === undefined ? undefined : parsed(bytes)
      if (stored === undefined && (await isThere(folder))) {
        log.warn(
          'what was kept of the monitors cannot be read, or is of another key; it is ignored',
        )
      }
      return stored
    },
  }
}

/** In pieces, so that ten thousand monitors do not block the event loop and are never in memory twice. */
async function* textOf(what: Parameters<StoredMonitors['now']>[0]): AsyncGenerator<Buffer> {
  const { answer, monitors, time } = what
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

function parsed(bytes: Buffer): RestoredMonitors | undefined {
  try {
    const value = JSON.parse(bytes.toString()) as Partial<Record<keyof StoredTime, unknown>>
    const { keptAt, aheadMs, bootId, sinceBootMs } = value
    const numberOf = (one: unknown) => (typeof one === 'number' ? one : 0)
    const time = {
      keptAt: numberOf(keptAt),
      aheadMs: numberOf(aheadMs),
      bootId: typeof bootId === 'string' ? bootId : undefined,
      sinceBootMs: numberOf(sinceBootMs),
    }
    return { answer: answerOf(value), time }
  } catch {
    return undefined
  }
}

async function isThere({ path }: FileStore): Promise<boolean> {
  if (path === undefined) return false
  const found = await stat(join(path, NAME)).catch(() => undefined)
  return found !== undefined
}
