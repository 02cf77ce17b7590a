// Scrub threads. Starting one takes longer than many a scrub, so it is started as soon as a run is known to have
// files, while these are still being written.
import { Worker } from 'node:worker_threads'
import { COMPILE_CACHE } from '../../process/compile-cache.ts'

/** Heap of the thread, which buffers chunks and no large files. */
const HEAP_MIB_MAX = 256
/** Lifetime of an unused thread. */
const SPARE_MS_MAX = 30_000

let spare: { worker: Worker; timer: NodeJS.Timeout } | undefined

/** Starts a spare thread for the next caller of `acquireScrubThread`. Never throws. */
export function wakeScrubThread(): void {
  if (spare !== undefined) return
  try {
    const worker = startThread()
    const gone = () => {
      if (spare?.worker !== worker) return
      clearTimeout(spare.timer)
      spare = undefined
    }
    // `acquireScrubThread` reports the error.
    worker.once('error', gone)
    worker.once('exit', gone)
    worker.unref()
    const timer = setTimeout(() => {
      gone()
      void worker.terminate()
    }, SPARE_MS_MAX)
    spare = { worker, timer: timer.unref() }
  } catch {
    // The same.
  }
}

/** Returns a thread that waits for a `ScrubFilesOrder`; the caller ends it. Throws where none can start. */
export function acquireScrubThread(): Worker {
  if (spare === undefined) return startThread()
  const { worker, timer } = spare
  spare = undefined
  clearTimeout(timer)
  worker.ref()
  return worker
}

function startThread(): Worker {
  return new Worker(new URL('./scrub-files-worker.ts', import.meta.url), {
    env: { NODE_COMPILE_CACHE: COMPILE_CACHE },
    name: 'scrub-files',
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB_MAX, maxYoungGenerationSizeMb: 32 },
  })
}
