// Takes secrets out of the files of a run before they go anywhere. In a thread of its own, so that a trace of
// a hundred megabytes delays no other check.
import { Worker } from 'node:worker_threads'
import { LIMITS } from '../contract/versions.ts'
import type { Scrubber } from './scrub.ts'
import type { ScrubFilesOrder, ScrubFilesReply } from './scrub-files-worker.ts'

/** Heap of the thread, which holds pieces and no files. */
const HEAP_MIB_MAX = 256

/** How far scrubbing the files of one attempt may go. */
export interface ScrubBounds {
  timeoutMs: number
  unpackedBytesMax: number
}

const DEFAULT_BOUNDS: ScrubBounds = {
  timeoutMs: LIMITS.scrubFilesMsMax,
  unpackedBytesMax: LIMITS.scrubUnpackedBytesMax,
}

/**
 * Scrubs files in place; their folder must be the run's, and nothing of the run alive. Gives the files that
 * must be left out, with the reason. Never rejects: what cannot be scrubbed is left out.
 */
export async function scrubFiles(
  paths: readonly string[],
  scrubber: Scrubber,
  bounds: ScrubBounds = DEFAULT_BOUNDS,
): Promise<ReadonlyMap<string, string>> {
  if (paths.length === 0) return new Map()
  const { secrets, headers } = scrubber.settings
  const order: ScrubFilesOrder = {
    paths,
    secrets,
    headers,
    unpackedBytesMax: bounds.unpackedBytesMax,
  }
  const outcome = await inThread(order, bounds.timeoutMs)
  if (typeof outcome === 'string') return new Map(paths.map((path) => [path, outcome]))
  return new Map(Object.entries(outcome))
}

/** The thread's reply, or why there is none. */
function inThread(order: ScrubFilesOrder, timeoutMs: number): Promise<ScrubFilesReply | string> {
  return new Promise((resolve) => {
    const worker = new Worker(new URL('./scrub-files-worker.ts', import.meta.url), {
      workerData: order,
      env: {},
      name: 'scrub-files',
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB_MAX, maxYoungGenerationSizeMb: 32 },
    })
    const end = (outcome: ScrubFilesReply | string) => {
      clearTimeout(timer)
      resolve(outcome)
      void worker.terminate()
    }
    const timer = setTimeout(() => {
      end(`it could not be scrubbed within ${timeoutMs / 1000} s`)
    }, timeoutMs)
    worker.once('message', (reply: ScrubFilesReply) => end(reply))
    worker.once('error', (error) => end(`it could not be scrubbed (${error.message})`))
    worker.once('exit', () => end('it could not be scrubbed (its thread ended)'))
  })
}
