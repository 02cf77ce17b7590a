// Thread that scrubs the files of one attempt: first it searches all of them for the values of sensitive headers,
// then it rewrites each without these and without the known secrets.
import { statSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { SecretSet, USER_CODE_BOUNDS } from '../../contract/secret-set.ts'
import { createNameTest } from '../../contract/protocol/sensitive-name.ts'
import { byteRules } from './byte-scrubber.ts'
import { diskMessage, isDiskFull } from '../../process/disk-problem.ts'
import { scrubFile } from './file-scrubbing.ts'
import { type ScrubPass, UnreadableFile } from './scrub-pass.ts'

/** Request to the thread, as its `workerData`. */
export interface ScrubFilesOrder {
  paths: readonly string[]
  secrets: readonly string[]
  headers: readonly string[]
  unpackedBytesMax: number
}

/** Path → why the file must be left out. */
type Problems = Record<string, string>

export interface ScrubFilesReply {
  problems: Problems
  found: string[]
}

/** Files that are read, unpacked and written at the same time, as streams. */
const AT_ONCE = 4

async function scrubAll(order: ScrubFilesOrder): Promise<ScrubFilesReply> {
  const isSensitive = createNameTest(order.headers)
  const problems: Problems = {}
  const found = new SecretSet([], USER_CODE_BOUNDS)
  const touched = new Set<string>()
  const onSecret = (value: string) => found.add(value)
  const passOf = (secrets: Iterable<string>, writes: boolean): ScrubPass => ({
    rules: byteRules(secrets, isSensitive),
    budget: { unpackedBytes: order.unpackedBytesMax },
    done: new Map(),
    writes,
  })
  const paths = largestLast(order.paths)
  const look = passOf(order.secrets, false)
  await goThrough(paths, problems, (path) =>
    scrubFile(path, { ...look, onSecret, onTouch: () => touched.add(path) }),
  )
  const write = passOf([...order.secrets, ...found], true)
  // The value of a header may stand anywhere; where there is none, most files are clean already.
  const isWhole = found.size > 0
  const dirty = paths.filter((path) => isWhole || touched.has(path))
  for (const [sha256, zip] of look.done) {
    if (!isWhole && !zip.isTouched) write.done.set(sha256, zip)
  }
  await goThrough(dirty, problems, (path) => scrubFile(path, write))
  return { problems, found: [...found] }
}

/** Reports hold copies of the others. */
function largestLast(paths: readonly string[]): string[] {
  const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0
  const sized = paths.map((path) => ({ path, size: sizeOf(path) }))
  return sized.sort((a, b) => a.size - b.size).map(({ path }) => path)
}

/** A few files at a time; those with problems are left alone. */
async function goThrough(
  paths: readonly string[],
  problems: Problems,
  scrub: (path: string) => Promise<void>,
): Promise<void> {
  const waiting = paths.filter((path) => problems[path] === undefined).values()
  const drainQueue = async () => {
    for (const path of waiting) {
      const problem = await scrub(path).then(
        () => undefined,
        (error: unknown) => reasonOf(error, path),
      )
      if (problem !== undefined) problems[path] = problem
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, drainQueue))
}

function reasonOf(error: unknown, path: string): string {
  if (error instanceof UnreadableFile) return `it could not be scrubbed: ${error.message}`
  if (isDiskFull(error)) {
    const bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0
    return `it has ${bytes} bytes, and ${diskMessage(error)}`
  }
  return `it could not be scrubbed (${(error as NodeJS.ErrnoException).code ?? 'INTERNAL'})`
}

parentPort?.postMessage(await scrubAll(workerData as ScrubFilesOrder), [])
