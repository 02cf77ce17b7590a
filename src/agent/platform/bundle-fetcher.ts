// Code bundles of the platform on this machine's disk: fetched when a suite first needs one, cached for its next
// runs, bounded. Several agents may share the folder.
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import PQueue from 'p-queue'
import { excerpt } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import { untilAborted } from '../../network/deadline.ts'
import { isDiskFull } from '../../process/disk-problem.ts'
import { BundleUnavailableError } from '../../scripts/host.ts'
import { LinkError } from './link-error.ts'
import type { LinkAnswer, PlatformLink } from './link.ts'
import { Backoff, retryAfterMs } from './backoff.ts'

export interface BundleFetcherOptions {
  link: Pick<PlatformLink, 'request'>
  /** The cache; created with the first bundle. */
  folder: string
  /** Bytes of one bundle, and of the cache. */
  bytesMax?: number
  keptBytesMax?: number
  /** For tests: in [0, 1). */
  random?: () => number
}

/** Other calls need connections too. */
const AT_ONCE = 2
const TRIES_MAX = 6
/** Until the answer begins. */
const ANSWER_MS = 30_000
const PACE = { idleMs: 20_000, wholeMs: 1_800_000 }
const SAID_CHARS_MAX = 200

/** A bundle on its way, for all who wait for it. */
interface Fetching {
  path: Promise<string>
  waiting: number
  stop: AbortController
}

/** Fetches bundles; touches nothing before the first one. */
export class BundleFetcher {
  readonly #options: BundleFetcherOptions
  readonly #queue = new PQueue({ concurrency: AT_ONCE })
  readonly #fetching = new Map<string, Fetching>()
  /** Files whose hash this process has checked. */
  readonly #checked = new Set<string>()

  constructor(options: BundleFetcherOptions) {
    this.#options = options
  }

  /** As ScriptHost.bundle. */
  async fetch(sha256: string, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted()
    const one = this.#fetching.get(sha256) ?? this.#begin(sha256)
    one.waiting++
    try {
      return await untilAborted(one.path, signal)
    } finally {
      if (--one.waiting === 0) {
        // A new caller starts again: this fetch is over, or about to be.
        if (this.#fetching.get(sha256) === one) this.#fetching.delete(sha256)
        one.stop.abort(new Error('no run waits for the bundle any more'))
      }
    }
  }

  #begin(sha256: string): Fetching {
    const stop = new AbortController()
    const path = this.#find(sha256, stop.signal)
    // A caller that was cancelled meanwhile does not await it.
    path.catch(() => undefined)
    const one = { path, waiting: 0, stop }
    this.#fetching.set(sha256, one)
    return one
  }

  async #find(sha256: string, signal: AbortSignal): Promise<string> {
    const { folder } = this.#options
    const path = join(folder, `${sha256}.tar.gz`)
    if (await this.#isHere(path, sha256)) return path
    await this.#queue.add(() => this.#download(path, sha256, signal))
    this.#checked.add(sha256)
    const bytesMax = this.#options.keptBytesMax ?? LIMITS.codeBundlesCacheBytesMax
    await makeRoom(folder, bytesMax)
    return path
  }

  async #isHere(path: string, sha256: string): Promise<boolean> {
    try {
      await utimes(path, new Date(), new Date())
      if (this.#checked.has(sha256)) return true
      const hash = createHash('sha256')
      await pipeline(createReadStream(path), hash)
      if (hash.digest('hex') === sha256) {
        this.#checked.add(sha256)
        return true
      }
      await rm(path, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw onDisk(error)
    }
    return false
  }

  async #download(path: string, sha256: string, signal: AbortSignal): Promise<void> {
    const wait = new Backoff(this.#options.random)
    for (let tries = 1; ; tries++) {
      signal.throwIfAborted()
      const failed = await this.#try(path, sha256, signal)
      if (failed === undefined) return
      signal.throwIfAborted()
      const { problem, isFinal, askedForMs } = failed
      if (isFinal || tries === TRIES_MAX) throw unavailable(sha256, problem)
      await sleep(wait.next(askedForMs), undefined, { signal }).catch(() => undefined)
    }
  }

  /** One try; undefined when the bundle is there. */
  async #try(path: string, sha256: string, signal: AbortSignal): Promise<Failed | undefined> {
    const part = `${path}.${randomUUID()}.part`
    let gotten = ''
    try {
      const answer = await this.#options.link.request({
        method: 'GET',
        path: `/agent/v1/bundles/${sha256}`,
        headers: { 'accept-encoding': 'identity' },
        deadlineMs: ANSWER_MS,
        pace: PACE,
        answerBytesMax: this.#options.bytesMax ?? LIMITS.codeBundleBytesMax,
        consume: async (pieces) => {
          gotten = await this.#write(part, pieces)
        },
        signal,
      })
      if (answer.status !== 200) return refusalOf(answer)
      if (gotten !== sha256) return { problem: 'the SHA-256 of the received bytes does not match' }
      await rename(part, path)
      return undefined
    } catch (error) {
      if (error instanceof LinkError)
        return { problem: error.message, isFinal: error.code === 'TOO_LARGE' }
      throw onDisk(error)
    } finally {
      await rm(part, { force: true }).catch(() => undefined)
    }
  }

  /** Writes the pieces; resolves with their hash, hex. */
  async #write(part: string, pieces: AsyncIterable<Buffer>): Promise<string> {
    const hash = createHash('sha256')
    const { folder } = this.#options
    // Packages lie next to it, and the users of user code must reach them.
    await mkdir(dirname(folder), { recursive: true })
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await using file = await open(part, 'wx', 0o600)
    for await (const piece of pieces) {
      hash.update(piece)
      await file.writeFile(piece)
    }
    await file.sync()
    return hash.digest('hex')
  }
}

interface Failed {
  problem: string
  /** Another attempt would fail the same way. */
  isFinal?: boolean
  askedForMs?: number | undefined
}

function refusalOf({ status, headers, body }: LinkAnswer): Failed {
  const askedForMs = retryAfterMs(headers['retry-after'], Date.now())
  if (status === 404) {
    const problem =
      'the platform does not have it for this location; `vedette apply` uploads it again'
    return { problem, isFinal: true }
  }
  const said = /"message":"([^"\\]*)"/.exec(body.toString())?.[1]
  const detail = said === undefined ? '' : ` (${excerpt(said, SAID_CHARS_MAX)})`
  const problem = `the platform answers ${status}${detail}`
  return { problem, isFinal: status < 500 && status !== 429 && status !== 408, askedForMs }
}

function unavailable(sha256: string, problem: string): BundleUnavailableError {
  return new BundleUnavailableError(`the code bundle ${sha256} cannot be fetched: ${problem}`)
}

function onDisk(error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === undefined) return error
  const why = isDiskFull(error) ? 'the disk is full' : message
  return new BundleUnavailableError(`the folder of code bundles cannot be used: ${why}`, {
    cause: error,
  })
}

/** A bundle that was used within this time may still be in use, and always stays. */
const IN_USE_MS = 600_000
/** A file of an interrupted download. */
const PART_MS_MAX = 7_200_000

/** Removes files until those that stay have at most `bytesMax` bytes. Never rejects. */
async function makeRoom(folder: string, bytesMax: number, now = Date.now()): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  const bundles: { path: string; bytes: number; usedAt: number }[] = []
  for (const name of names) {
    const path = join(folder, name)
    const found = await stat(path).catch(() => undefined)
    if (found?.isFile() !== true) continue
    if (name.endsWith('.part')) {
      if (now - found.mtimeMs > PART_MS_MAX) await rm(path, { force: true }).catch(() => undefined)
    } else if (name.endsWith('.tar.gz')) {
      bundles.push({ path, bytes: found.size, usedAt: found.mtimeMs })
    }
  }
  let bytes = bundles.reduce((sum, one) => sum + one.bytes, 0)
  for (const one of bundles.toSorted((a, b) => a.usedAt - b.usedAt)) {
    if (bytes <= bytesMax || now - one.usedAt < IN_USE_MS) return
    await rm(one.path, { force: true }).catch(() => undefined)
    bytes -= one.bytes
  }
}
