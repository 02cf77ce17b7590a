// The code bundles of a file that is applied: the folder of each check suite is packed, and the suite names the
// bundle by its hash in place of the folder.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { bundlePath, namesBundle } from '../contract/code-bundle.ts'
import type { Monitor } from '../contract/monitor.ts'
import { LIMITS } from '../contract/versions.ts'
import { BundlePackError, packBundle } from './bundle-pack.ts'
import { createFindings, type Findings } from './monitors-file-problems.ts'
import type { FileToApply } from './monitors-file.ts'

/** A bundle that suites of a file need. */
export interface FileBundle {
  /** Folder or file, as the monitors file names it. */
  from: string
  /** Where it lies packed. */
  path: string
  /** Hex. */
  sha256: string
  bytes: number
  /** In the folder; undefined of what was packed already. */
  files?: number
}

/** A file whose suites name bundles by their hashes, and the bundles; or what is wrong with folders. */
export type BundledFile = { file: FileToApply; bundles: FileBundle[] } | { findings: Findings }

/**
 * Packs what the suites of a file name, lends it to `work`, and removes it. Rejects with what `work` rejects
 * with. `monitorsFile`: folders are named from where it lies.
 */
export async function withFileBundles<T>(
  file: FileToApply,
  monitorsFile: string,
  work: (bundled: BundledFile) => T | Promise<T>,
): Promise<T> {
  const named = file.monitors.map(({ monitor }) => localPathOf(monitor))
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
  if (monitor.checkType !== 'PLAYWRIGHT' || typeof codeBundlePath !== 'string') return undefined
  return namesBundle(codeBundlePath) ? undefined : codeBundlePath
}

async function bundledFile(
  file: FileToApply,
  named: readonly (string | undefined)[],
  { monitorsFile, folder }: { monitorsFile: string; folder: string },
): Promise<BundledFile> {
  const findings = createFindings()
  const bundles = new Map<string, FileBundle | undefined>()
  for (const [index, from] of named.entries()) {
    if (from === undefined) continue
    const source = resolve(dirname(monitorsFile), from)
    const object = (message: string) =>
      findings.push({ path: ['monitors', index, 'codeBundlePath'], message })
    if (!bundles.has(source)) {
      const made = await bundleOf(from, source, join(folder, `${bundles.size}.tar.gz`))
      bundles.set(source, typeof made === 'string' ? undefined : made)
      if (typeof made === 'string') object(made)
    }
  }
  if (findings.count() > 0) return { findings }
  const monitors = file.monitors.map((one, index) => {
    const from = named[index]
    const bundle = from && bundles.get(resolve(dirname(monitorsFile), from))
    if (!bundle) return one
    return { ...one, monitor: { ...one.monitor, codeBundlePath: bundlePath(bundle.sha256) } }
  })
  return { file: { ...file, monitors }, bundles: distinct([...bundles.values()]) }
}

/** Folders of the same content are one bundle. */
function distinct(bundles: readonly (FileBundle | undefined)[]): FileBundle[] {
  return [...new Map(bundles.flatMap((one) => (one ? [[one.sha256, one]] : []))).values()]
}

const BYTES_MAX = LIMITS.codeBundleBytesMax

/** The bundle of a folder or of a file that is packed; a sentence where there is none. */
async function bundleOf(
  from: string,
  source: string,
  target: string,
): Promise<FileBundle | string> {
  if (from.includes('{{')) return 'must not hold variables: the folder is packed here'
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
    if (found.size > BYTES_MAX) return `it has ${found.size} bytes; at most ${BYTES_MAX} are taken`
    const hash = createHash('sha256')
    await pipeline(createReadStream(source), hash)
    return { from, path: source, sha256: hash.digest('hex'), bytes: found.size }
  } catch (error) {
    if (error instanceof BundlePackError) return error.message
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return `there is no folder and no .tar.gz at ${source}`
    if (code !== undefined) return `cannot be packed: ${message}`
    throw error
  }
}
