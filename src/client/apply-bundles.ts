// The code bundles of a file that is applied: the folder of each check suite is packed, the suite names the bundle by
// its hash in place of the folder, and the bundles that the platform does not have are uploaded.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { bundlePath, namesBundle } from '../contract/api/code-bundle.ts'
import type { EngineName } from '../contract/engine.ts'
import type { Monitor } from '../contract/monitor.ts'
import type { SuiteMonitor } from '../monitors/definitions.ts'
import { LIMITS } from '../contract/versions.ts'
import { unpackBundle } from '../suites/bundle-unpack.ts'
import { type EngineOptions, suiteEngine } from '../suites/engine.ts'
import { foldersUpward } from '../suites/packages/package-manager.ts'
import { BundlePackError, packBundle, type PackedBundle } from './bundle-pack.ts'
import { createFindings, type Findings } from '../agent/monitors-file/problems.ts'
import type { LoadedFile } from '../agent/monitors-file/file.ts'
import type { ApplyTarget } from './config.ts'
import { callPublicApi, isBusy, type PublicAnswer, type PublicCall, refusal } from './public-api.ts'

/** A bundle that suites of a file need. */
export interface FileBundle extends Omit<PackedBundle, 'files'> {
  /** Folder or file, as the monitors file names it. */
  from: string
  /** In the folder; undefined for an archive. */
  files?: number
}

/** A file whose suites name bundles by their hashes, and the bundles; or what is wrong with folders. */
export type BundledFile = { file: LoadedFile; bundles: FileBundle[] } | { findings: Findings }

/**
 * Packs the folders of the suites, passes them to `work`, and removes the archives. Rejects with the error of
 * `work`. `monitorsFile`: folders are relative to it.
 */
export async function withFileBundles<T>(
  file: LoadedFile,
  monitorsFile: string,
  work: (bundled: BundledFile) => T | Promise<T>,
): Promise<T> {
  const named = file.monitors.map(localPathOf)
  if (named.every((one) => one === undefined)) return work({ file, bundles: [] })
  const folder = await mkdtemp(join(tmpdir(), 'vedette-apply-'))
  try {
    return await work(await bundledFile(file, named, { monitorsFile, folder }))
  } finally {
    await rm(folder, { recursive: true, force: true }).catch(() => undefined)
  }
}

function localPathOf(monitor: Monitor): string | undefined {
  const { codeBundlePath } = monitor as { codeBundlePath?: unknown }
  if (typeof codeBundlePath !== 'string') return undefined
  return namesBundle(codeBundlePath) ? undefined : codeBundlePath
}

async function bundledFile(
  file: LoadedFile,
  named: readonly (string | undefined)[],
  { monitorsFile, folder }: { monitorsFile: string; folder: string },
): Promise<BundledFile> {
  const findings = createFindings()
  const bundles = new Map<string, FileBundle | undefined>()
  const monitors: Monitor[] = []
  for (const [index, monitor] of file.monitors.entries()) {
    const from = named[index]
    if (from === undefined) {
      monitors.push(monitor)
      continue
    }
    const source = resolve(dirname(monitorsFile), from)
    const object = (message: string) =>
      findings.push({ path: ['monitors', index, 'codeBundlePath'], message })
    if (!bundles.has(source)) {
      const made = await bundleOf(from, source, join(folder, `${bundles.size}.tar.gz`))
      bundles.set(source, typeof made === 'string' ? undefined : made)
      if (typeof made === 'string') object(made)
    }
    const bundle = bundles.get(source)
    if (bundle === undefined) continue
    const engine = await engineOf(monitor, source, folder)
    if (typeof engine === 'string') object(engine)
    else monitors.push({ ...monitor, ...engine, codeBundlePath: bundlePath(bundle.sha256) })
  }
  if (findings.count() > 0) return { findings }
  // Folders of the same content are one bundle.
  const distinct = new Map([...bundles.values()].map((one) => [one?.sha256, one]))
  const made = [...distinct.values()].filter((one) => one !== undefined)
  return { file: { ...file, monitors }, bundles: made }
}

/**
 * The engine that the project's own files ask for, where the suite leaves it to them: the platform cannot look
 * into bundles, and hands a suite to agents that have its engine. A sentence where there is no such engine.
 */
async function engineOf(
  monitor: Monitor,
  source: string,
  folder: string,
): Promise<EngineOptions | string | undefined> {
  const { engine, engineVersion, workingDir } = monitor as Partial<SuiteMonitor>
  const workingFolder = workingDir ?? '.'
  const isOpen = [engine, engineVersion, workingFolder].some((one) => one?.includes('{{'))
  if (isOpen || (engineVersion ?? '') !== '' || workingFolder.startsWith('..')) return undefined
  const project = (await stat(source)).isDirectory() ? source : await unpacked(source, folder)
  const found = await suiteEngine({ engine }, foldersUpward(project, workingFolder))
  if (typeof found === 'string') return found
  if (found.from === 'default') return undefined
  const [name, version] = found.engine.split('@')
  return { engine: name as EngineName, engineVersion: version }
}

/** Where a packed project lies with its files, below `folder`. */
async function unpacked(source: string, folder: string): Promise<string> {
  const target = await mkdtemp(join(folder, 'unpacked-'))
  const bounds = {
    unpackedBytesMax: LIMITS.suiteProjectBytesMax,
    filesMax: LIMITS.suiteProjectFilesMax,
  }
  // A bad archive fails when it runs, with the agent's message.
  const signal = AbortSignal.timeout(UNPACK_MS_MAX)
  await unpackBundle(source, target, bounds, signal).catch(() => undefined)
  return target
}

const UNPACK_MS_MAX = 60_000

const BYTES_MAX = LIMITS.codeBundleBytesMax

/** The bundle of a folder or of a file that is packed; a sentence where there is none. */
async function bundleOf(
  from: string,
  source: string,
  target: string,
): Promise<FileBundle | string> {
  if (from.includes('{{')) return 'must not contain variables: the folder is packed here'
  try {
    const found = await stat(source)
    if (found.isDirectory()) {
      const bounds = { bytesMax: BYTES_MAX, filesMax: LIMITS.codeBundleFilesMax }
      const { files, ...packed } = await packBundle(source, target, bounds)
      return files === 0 ? `the folder ${source} is empty` : { from, files, ...packed }
    }
    if (!/\.(?:tar\.gz|tgz)$/.test(source)) {
      return `must name the folder of a Playwright project, or a .tar.gz of it; ${source} is neither`
    }
    if (found.size > BYTES_MAX)
      return `it has ${found.size} bytes; at most ${BYTES_MAX} are allowed`
    const hash = createHash('sha256')
    await pipeline(createReadStream(source), hash)
    return { from, path: source, sha256: hash.digest('hex'), bytes: found.size }
  } catch (error) {
    if (error instanceof BundlePackError) return error.message
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return `${source} does not exist; name a folder or a .tar.gz`
    if (code !== undefined) return `cannot be packed: ${message}`
    throw error
  }
}

const PATH = '/v1/code-bundles'
const TRIES_MAX = 3
const AGAIN_MS = 1_000
/** The slowest connection that works. */
const BYTES_PER_MS_MIN = 64
const UPLOAD_MS_MIN = 60_000

/** Those of the bundles that the account does not have. Rejects with PlatformError. */
export async function missingBundles(
  target: ApplyTarget,
  bundles: readonly FileBundle[],
  signal: AbortSignal,
): Promise<FileBundle[]> {
  const missing: FileBundle[] = []
  for (const one of bundles) {
    const path = `${PATH}/${one.sha256}`
    const answer = await callAgain(target, signal, () => ({ method: 'HEAD', path }))
    if (answer.status === 404) missing.push(one)
    else if (answer.status !== 200) throw refusal(target, PATH, answer)
  }
  return missing
}

/** Uploads a bundle. Rejects with PlatformError. */
export async function bringBundle(
  target: ApplyTarget,
  { sha256, path, bytes }: FileBundle,
  signal: AbortSignal,
): Promise<void> {
  const answer = await callAgain(target, signal, () => ({
    method: 'PUT',
    path: `${PATH}/${sha256}`,
    body: createReadStream(path),
    bytes,
    headers: { 'content-type': 'application/gzip' },
    deadlineMs: Math.max(UPLOAD_MS_MIN, bytes / BYTES_PER_MS_MIN),
  }))
  if (answer.status !== 200) throw refusal(target, PATH, answer)
}

/** Calls with retries: the upload of a bundle is idempotent. */
async function callAgain(
  target: ApplyTarget,
  signal: AbortSignal,
  ask: () => PublicCall,
): Promise<PublicAnswer> {
  const ifAborted = 'interrupted; nothing was applied'
  for (let tries = 1; ; tries++) {
    try {
      const answer = await callPublicApi(target, { ...ask(), signal, ifAborted })
      if (!isBusy(answer.status) || tries === TRIES_MAX) return answer
    } catch (error) {
      if (signal.aborted || tries === TRIES_MAX) throw error
    }
    await sleep(AGAIN_MS * tries, undefined, { signal }).catch(() => undefined)
  }
}
