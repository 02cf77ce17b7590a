// The threads that scrub files. One takes longer to wake up than many a run has to be scrubbed for, so it is
// woken when a run is known to have files, while those are still being put together.
import { Worker } from 'node:worker_threads'
import { COMPILE_CACHE } from '../../process/compile-cache.ts'

/** Heap of the thread, which holds pieces and no large files. */
const HEAP_MIB_MAX = 256
/** A thread that nobody has come for ends. */
const SPARE_MS_MAX = 30_000

let spare: { worker: Worker; timer: NodeJS.Timeout } | undefined

/** Wakes a thread for whoever takes the next one. Never throws. */
export function wakeScrubThread(): void {
  if (spare !== undefined) return
  try {
    const worker = startThread()
    const gone = () => {
      if (spare?.worker !== worker) return
      clearTimeout(spare.timer)
      spare = undefined
    }
    // Whoever needs one finds out what is wrong.
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

/** Gives a thread that waits for its order (`ScrubFilesOrder`), and whose end is the taker's. Throws where none can begin. */
export function takeScrubThread(): Worker {
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
