// The thread that scrubs the files of one attempt: a look through all of them for what sensitive headers hold,
// then each written anew without that and without the known secrets.
import { statSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { createNameTest } from '../contract/sensitive-name.ts'
import { byteRules } from './byte-scrubber.ts'
import { scrubFile } from './file-scrubbing.ts'
import { type ScrubPass, UnreadableFile } from './scrub-pass.ts'

/** What the thread is to do. */
export interface ScrubFilesOrder {
  paths: readonly string[]
  secrets: readonly string[]
  headers: readonly string[]
  unpackedBytesMax: number
}

/** Path → why the file must be left out. */
export type ScrubFilesReply = Record<string, string>

/** Files that are read, unpacked and written at the same time; what they hold passes through in pieces. */
const AT_ONCE = 4
/** Values of headers that are looked for in other files; a hostile run could name millions. */
const FOUND_MAX = 1000

async function scrubAll(order: ScrubFilesOrder): Promise<ScrubFilesReply> {
  const isSensitive = createNameTest(order.headers)
  const problems: ScrubFilesReply = {}
  const found = new Set<string>()
  const onSecret = (value: string) => {
    if (found.size < FOUND_MAX) found.add(value)
  }
  // The largest first, so that none of them is left for the end.
  const sized = order.paths.map((path) => ({
    path,
    size: statSync(path, { throwIfNoEntry: false })?.size ?? 0,
  }))
  const paths = sized.sort((a, b) => a.size - b.size).map(({ path }) => path)
  const pass = async (secrets: Iterable<string>, how: Pick<ScrubPass, 'writes' | 'onSecret'>) => {
    const budget = { unpackedBytes: order.unpackedBytesMax }
    const whole = { rules: byteRules(secrets, isSensitive), budget, zips: new Map(), ...how }
    const waiting = paths.filter((path) => problems[path] === undefined)
    const lane = async () => {
      for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
        const problem = await scrubFile(path, whole).then(() => undefined, reasonOf)
        if (problem !== undefined) problems[path] = problem
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, lane))
  }
  await pass([], { writes: false, onSecret })
  await pass([...order.secrets, ...found], { writes: true })
  return problems
}

function reasonOf(error: unknown): string {
  if (error instanceof UnreadableFile) return `it could not be scrubbed: ${error.message}`
  return `it could not be scrubbed (${(error as NodeJS.ErrnoException).code ?? String(error)})`
}

parentPort?.postMessage(await scrubAll(workerData as ScrubFilesOrder), [])
