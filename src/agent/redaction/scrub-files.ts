// Takes secrets out of the files of a run before they go anywhere. In a thread of its own, so that a trace of
// a hundred megabytes delays no other check.
import { stat } from 'node:fs/promises'
import { Worker } from 'node:worker_threads'
import { LIMITS } from '../../contract/versions.ts'
import { COMPILE_CACHE } from '../../process/compile-cache.ts'
import type { Scrubber } from './scrub.ts'
import type { ScrubFilesOrder, ScrubFilesReply } from './scrub-files-worker.ts'
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
  const { settings } = scrubber
  const isCut = () => cut?.aborted === true
  const scrubAll = async (some: readonly string[], within: ScrubBounds, until?: AbortSignal) => {
    if (some.length === 0) return new Map<string, string>()
    const { timeoutMs, unpackedBytesMax } = within
    const outcome = await inThread({ ...settings, paths: some, unpackedBytesMax }, timeoutMs, until)
    if (typeof outcome === 'string') return new Map(some.map((path) => [path, outcome] as const))
    onFound?.(outcome.found)
    return new Map(Object.entries(outcome.problems))
  }
  const whole = isCut() ? undefined : await scrubAll(paths, bounds, cut)
  if (whole !== undefined && !isCut()) return whole
  const quick = await quicklyHad(paths)
  const late = paths.filter((path) => !quick.includes(path))
  const done = await scrubAll(quick, CUT_BOUNDS)
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

/** Heap of the thread, which buffers chunks and no large files. */
const HEAP_MIB_MAX = 256

/** The thread's reply, or why there is none. */
async function inThread(
  order: ScrubFilesOrder,
  timeoutMs: number,
  cut: AbortSignal | undefined,
): Promise<ScrubFilesReply | string> {
  const { promise, resolve } = Promise.withResolvers<ScrubFilesReply | string>()
  // What went wrong may quote a secret.
  const fail = (error: NodeJS.ErrnoException) =>
    resolve(`it could not be scrubbed (${error.code ?? error.name})`)
  let worker: Worker
  try {
    worker = new Worker(new URL('./scrub-files-worker.ts', import.meta.url), {
      workerData: order,
      env: { NODE_COMPILE_CACHE: COMPILE_CACHE },
      name: 'scrub-files',
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB_MAX, maxYoungGenerationSizeMb: 32 },
    })
  } catch (error) {
    // Where there are too many threads already, none begins.
    fail(error as NodeJS.ErrnoException)
    return promise
  }
  const onCut = () => resolve(CUT_REASON)
  cut?.addEventListener('abort', onCut)
  const timer = setTimeout(
    () => resolve(`it could not be scrubbed within ${timeoutMs / 1000} s`),
    timeoutMs,
  )
  worker.once('message', resolve)
  worker.once('error', fail)
  worker.once('exit', () => resolve('it could not be scrubbed (its thread ended)'))
  const outcome = await promise
  clearTimeout(timer)
  cut?.removeEventListener('abort', onCut)
  // It may be about to put a file into its place.
  await worker.terminate()
  return outcome
}
