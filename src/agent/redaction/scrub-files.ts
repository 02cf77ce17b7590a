// Takes secrets out of the files of a run before they go anywhere. In a thread of its own, so that a trace of
// a hundred megabytes delays no other check.
import { stat } from 'node:fs/promises'
import { LIMITS } from '../../contract/versions.ts'
import type { Scrubber } from './scrub.ts'
import type { ScrubFilesOrder, ScrubFilesReply } from './scrub-files-worker.ts'
import { acquireScrubThread } from './scrub-thread.ts'
import { CUT_FILES_BYTES_MAX, CUT_REASON } from '../run/work-folder.ts'

/** How far scrubbing the files of one attempt may go. */
export interface ScrubBounds {
  timeoutMs: number
  unpackedBytesMax: number
}

/**
 * Limit of scrubbing for the files of a cancelled run: it is little, but the machine
 * may be busy.
 */
const CUT_BOUNDS: ScrubBounds = { timeoutMs: 5_000, unpackedBytesMax: 2 * CUT_FILES_BYTES_MAX }

const DEFAULT_BOUNDS: ScrubBounds = {
  timeoutMs: LIMITS.scrubFilesMsMax,
  unpackedBytesMax: LIMITS.scrubUnpackedBytesMax,
}

/**
 * Scrubs files in place; their folder must be the run's, and nothing of the run alive. Gives the files that
 * must be left out, with the reason: those that cannot be scrubbed, and those that take long when `cut` is
 * aborted. `onFound` receives the values of sensitive headers in them. Never rejects.
 */
export async function scrubFiles(
  paths: readonly string[],
  scrubber: Pick<Scrubber, 'settings'>,
  cut?: AbortSignal,
  bounds: ScrubBounds = DEFAULT_BOUNDS,
  onFound?: (values: readonly string[]) => void,
): Promise<ReadonlyMap<string, string>> {
  const isCut = () => cut?.aborted === true
  const whole = isCut() ? undefined : await scrubAll(paths, scrubber, { bounds, cut, onFound })
  if (whole !== undefined && !isCut()) return whole
  const quick = await quicklyHad(paths)
  const late = paths.filter((path) => !quick.includes(path))
  const done = await scrubAll(quick, scrubber, { bounds: CUT_BOUNDS, onFound })
  return new Map([...done, ...late.map((path) => [path, CUT_REASON] as const)])
}

/** The smallest files, as many as are few bytes together. */
async function quicklyHad(paths: readonly string[]): Promise<string[]> {
  const sizes = await Promise.all(
    paths.map(async (path) => ({ path, bytes: await stat(path).then(sizeOf, () => Infinity) })),
  )
  let left = CUT_FILES_BYTES_MAX
  return sizes
    .sort((a, b) => a.bytes - b.bytes)
    .filter(({ bytes }) => (left -= bytes) >= 0)
    .map(({ path }) => path)
}

const sizeOf = ({ size }: { size: number }) => size

interface ScrubAround {
  bounds: ScrubBounds
  cut?: AbortSignal | undefined
  onFound: ((values: readonly string[]) => void) | undefined
}

async function scrubAll(
  paths: readonly string[],
  scrubber: Pick<Scrubber, 'settings'>,
  { bounds, cut, onFound }: ScrubAround,
): Promise<ReadonlyMap<string, string>> {
  if (paths.length === 0) return new Map()
  const { secrets, headers } = scrubber.settings
  const order: ScrubFilesOrder = {
    paths,
    secrets,
    headers,
    unpackedBytesMax: bounds.unpackedBytesMax,
  }
  // Where there are too many threads already, none begins.
  const outcome = await inThread(order, bounds.timeoutMs, cut).catch(
    (error: NodeJS.ErrnoException) => `it could not be scrubbed (${error.code ?? error.name})`,
  )
  if (typeof outcome === 'string') return new Map(paths.map((path) => [path, outcome]))
  onFound?.(outcome.found)
  return new Map(Object.entries(outcome.problems))
}

/** The thread's reply, or why there is none. */
function inThread(
  order: ScrubFilesOrder,
  timeoutMs: number,
  cut: AbortSignal | undefined,
): Promise<ScrubFilesReply | string> {
  return new Promise((resolve) => {
    const worker = acquireScrubThread()
    let isOver = false
    const end = (outcome: ScrubFilesReply | string) => {
      if (isOver) return
      isOver = true
      clearTimeout(timer)
      cut?.removeEventListener('abort', onCut)
      // Not before it has ended: it may be about to put a file into its place.
      void worker.terminate().then(() => resolve(outcome))
    }
    const onCut = () => end(CUT_REASON)
    cut?.addEventListener('abort', onCut, { once: true })
    const timer = setTimeout(() => {
      end(`it could not be scrubbed within ${timeoutMs / 1000} s`)
    }, timeoutMs)
    worker.once('message', (reply: ScrubFilesReply) => end(reply))
    // What went wrong may quote a secret.
    worker.once('error', (error: NodeJS.ErrnoException) =>
      end(`it could not be scrubbed (${error.code ?? error.name})`),
    )
    worker.once('exit', () => end('it could not be scrubbed (its thread ended)'))
    worker.postMessage(order, [])
  })
}
