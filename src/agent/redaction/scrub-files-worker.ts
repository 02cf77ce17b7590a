// The thread that scrubs the files of one attempt: a look through all of them for what sensitive headers hold,
// then each written anew without that and without the known secrets.
import { statSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { SecretSet } from '../../contract/secret-set.ts'
import { createNameTest } from '../../contract/protocol/sensitive-name.ts'
import { byteRules } from './byte-scrubber.ts'
import { diskWords, isDiskFull } from '../delivery/spool/disk-words.ts'
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
type Problems = Record<string, string>

/** What came of it. */
export interface ScrubFilesReply {
  problems: Problems
  /** What sensitive headers held. */
  found: string[]
}

/** Files that are read, unpacked and written at the same time; what they hold passes through in pieces. */
const AT_ONCE = 4

async function scrubAll(order: ScrubFilesOrder): Promise<ScrubFilesReply> {
  const isSensitive = createNameTest(order.headers)
  const problems: Problems = {}
  const found = new SecretSet()
  const touched = new Set<string>()
  const onSecret = (value: string) => found.add(value)
  const passOf = (secrets: Iterable<string>, writes: boolean): ScrubPass => ({
    rules: byteRules(secrets, isSensitive),
    budget: { unpackedBytes: order.unpackedBytesMax },
    zips: new Map(),
    done: new Map(),
    writes,
  })
  const paths = largestLast(order.paths)
  const look = passOf(order.secrets, false)
  await goThrough(paths, problems, (path) =>
    scrubFile(path, { ...look, onSecret, onTouch: () => touched.add(path) }),
  )
  const write = passOf([...order.secrets, ...found], true)
  let dirty = paths
  // What a header held may stand anywhere; where none held anything, most files are as they should be.
  if (found.size === 0) {
    dirty = paths.filter((path) => touched.has(path))
    keepClean(look, write)
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
  const lane = async () => {
    for (const path of waiting) {
      const problem = await scrub(path).then(
        () => undefined,
        (error: unknown) => reasonOf(error, path),
      )
      if (problem !== undefined) problems[path] = problem
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
}

/** Zips in which nothing was found need not be looked at again where they are inside of others. */
function keepClean(look: ScrubPass, write: ScrubPass): void {
  for (const [sha256, one] of look.done) {
    if (one.isTouched) continue
    write.done.set(sha256, one)
    write.zips.set(sha256, Promise.resolve(one))
  }
}

function reasonOf(error: unknown, path: string): string {
  if (error instanceof UnreadableFile) return `it could not be scrubbed: ${error.message}`
  if (isDiskFull(error)) {
    const bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0
    return `it has ${bytes} bytes, and ${diskWords(error)}`
  }
  return `it could not be scrubbed (${(error as NodeJS.ErrnoException).code ?? 'INTERNAL'})`
}

parentPort?.once('message', (order: ScrubFilesOrder) => {
  void scrubAll(order).then((reply) => parentPort?.postMessage(reply, []))
})
