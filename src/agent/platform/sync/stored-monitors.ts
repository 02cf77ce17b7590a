// The last monitors on disk, for a restart while the platform is away. Written as a whole some time after a
// change, encrypted; what is damaged or was kept under another key is as good as not there.
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../../../process/log.ts'
import { parseAnswer } from '../answer-text.ts'
import type { AssignedMonitor } from './assigned-monitors.ts'
import type { StoredTime } from '../../schedule/stored-clock.ts'
import { answerOf, type ReadAnswer } from './answer.ts'

/** Where things are kept: the part of an agent's folder that is needed here. */
export interface Keeping {
  /** Undefined where nothing can be kept. */
  readonly path: string | undefined
  keep(name: string, bytes: AsyncIterable<Buffer>): Promise<void>
  /** Calls back once when something can be kept after all. */
  onTaken?(taken: () => void): void
  kept(name: string): Promise<Buffer | undefined>
}

/** What is kept besides the monitors: an answer without anything that was news. */
export type KeptAnswer = Pick<ReadAnswer, 'location' | 'revision' | 'settings'> & {
  variables: NonNullable<ReadAnswer['changes']>['variables']
}

/** What was kept, as the answer that would give the same. */
export interface Kept {
  answer: ReadAnswer
  time: StoredTime
}

export interface KeptMonitors {
  /** Asks `what` after a while and keeps it; further calls until then ask for no more. */
  soon(what: () => Parameters<KeptMonitors['now']>[0]): void
  /** Keeps it now. Never rejects. */
  now(what: {
    answer: KeptAnswer
    monitors: Iterable<AssignedMonitor>
    time: StoredTime
  }): Promise<void>
  /** What was kept, if it can be read. Never rejects. */
  read(): Promise<Kept | undefined>
  /** Keeps what is still to be kept. */
  flush(): Promise<void>
}

const NAME = 'monitors'
/** Made, encrypted and written at a time. */
const PIECE_CHARACTERS = 256 * 1024
/** Changes come in bursts, and each writes all of it. */
const SOON_MS = 2000
/** Before what could not be written is written again. */
const AGAIN_MS = 30_000

/** Keeps monitors in an agent's folder. */
export function createKeptMonitors(folder: Keeping, log: Log): KeptMonitors {
  let timer: NodeJS.Timeout | undefined
  let waiting: (() => Parameters<KeptMonitors['now']>[0]) | undefined
  let writing = Promise.resolve()
  let isTold = false
  let isOver = false

  /** Whether it is kept now, or need not be. */
  const write = async (what: Parameters<KeptMonitors['now']>[0]): Promise<boolean> => {
    if (folder.path === undefined) return true
    try {
      await folder.keep(NAME, textOf(what))
      isTold = false
      return true
    } catch (error) {
      if (!isTold) log.warn({ err: error }, 'the monitors cannot be kept on disk for a restart')
      isTold = true
      return false
    }
  }
  const soon = (what: () => Parameters<KeptMonitors['now']>[0], ms: number) => {
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
      const isKept = await write(what())
      if (!isKept && waiting === undefined && !isOver) soon(what, AGAIN_MS)
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
      const bytes = await folder.kept(NAME).catch(() => undefined)
      const kept = bytes === undefined ? undefined : await parsed(bytes)
      if (kept === undefined && (await isThere(folder))) {
        log.warn(
          'what was kept of the monitors cannot be read, or is of another key; it is ignored',
        )
      }
      return kept
    },
  }
}

/** In pieces, so that ten thousand monitors hold nothing up and are never there a second time as a whole. */
async function* textOf(what: Parameters<KeptMonitors['now']>[0]): AsyncGenerator<Buffer> {
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

async function parsed(bytes: Buffer): Promise<Kept | undefined> {
  try {
    const value = (await parseAnswer(bytes)) as Partial<Record<keyof StoredTime, unknown>>
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

async function isThere({ path }: Keeping): Promise<boolean> {
  if (path === undefined) return false
  const found = await stat(join(path, NAME)).catch(() => undefined)
  return found !== undefined
}
