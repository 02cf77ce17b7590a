// Probes whether DATA_DIR can be written to and has room. Existing files are not touched: one small file is written
// and removed.
import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { access, open, rm, stat, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { AgentConfig } from '../../agent/config.ts'
import type { Finding } from './finding.ts'
import { FIXES } from './fixes.ts'

/** Below this number, folders of runs and files of the agent hardly fit. */
const INODES_MIN = 1000
const PROBE_BYTES = 64 * 1024
const MIB = 1024 * 1024

type DiskConfig = Pick<
  AgentConfig,
  'dataDir' | 'spoolBytesMax' | 'monitorsFile' | 'workRoot' | 'platformUrl'
>

/** Probes DATA_DIR, or the folder for temporary files without it. */
export async function probeDisk(config: DiskConfig): Promise<Finding[]> {
  const folder = config.dataDir ?? tmpdir()
  const there = await nearest(folder)
  const problem = await writeProblem(there, folder)
  const room = await roomIn(there)
  const facts = { folder, ...room }
  if (problem !== undefined) {
    const { code, path } = problem
    const says = `${path} cannot be written to: ${WRITE_PROBLEMS[code] ?? code} (${code})`
    const fix = await fixOf(code, path, config)
    return [{ id: 'disk', standing: 'broken', says, fix, facts: { ...facts, problem: code } }]
  }
  const isMade = there !== folder
  const says = `${folder} ${isMade ? 'can be made' : 'can be written to'}, ${roomText(room)}`
  const recommendation = recommendationOf(config, room)
  if (recommendation === undefined) return [{ id: 'disk', standing: 'works', says, facts }]
  const [why, fix] = recommendation
  return [{ id: 'disk', standing: 'warning', says: `${says}: ${why}`, fix, facts }]
}

interface Room {
  freeBytes: number
  /** Undefined where the file system counts none. */
  freeInodes?: number
}

async function roomIn(folder: string): Promise<Room> {
  const { bavail, bsize, files, ffree } = await statfs(folder)
  return { freeBytes: bavail * bsize, ...(files > 0 && { freeInodes: ffree }) }
}

function roomText({ freeBytes, freeInodes }: Room): string {
  const files = freeInodes === undefined ? '' : `, ${freeInodes} files`
  return `${Math.floor(freeBytes / MIB)} MiB${files} free`
}

/** A recommendation and its fix. */
function recommendationOf(
  { dataDir, spoolBytesMax, monitorsFile, platformUrl }: DiskConfig,
  { freeBytes, freeInodes = Infinity }: Room,
): [why: string, fix: string] | undefined {
  if (freeInodes < INODES_MIN)
    return ['hardly any file can be made', 'remove files, or use a larger volume']
  if (monitorsFile !== undefined || platformUrl === undefined) return undefined
  if (freeBytes < spoolBytesMax) {
    const why = `results wait here while the platform is away, up to ${Math.ceil(spoolBytesMax / MIB)} MiB (SPOOL_BYTES_MAX)`
    const fits = Math.max(1, Math.floor(freeBytes / 2 / MIB))
    return [why, FIXES.variable('SPOOL_BYTES_MAX', `${fits}MiB`)]
  }
  if (dataDir !== undefined) return undefined
  return [
    'results that wait for the platform are stored among temporary files',
    FIXES.variable('DATA_DIR', '/var/lib/vedette'),
  ]
}

/** The folder itself, or its closest existing parent. */
async function nearest(folder: string): Promise<string> {
  const parent = dirname(folder)
  const isThere = await stat(folder).then(
    () => true,
    () => false,
  )
  return isThere || parent === folder ? folder : nearest(parent)
}

interface WriteProblem {
  code: string
  path: string
}

const WRITE_PROBLEMS: Readonly<Record<string, string>> = {
  EACCES: 'it is another user’s',
  EPERM: 'it is another user’s',
  EROFS: 'it is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the user’s quota is used up',
  ENOTDIR: 'it is no folder',
}

/** Writes a file, and checks the subfolders of an agent. */
async function writeProblem(there: string, folder: string): Promise<WriteProblem | undefined> {
  const own = await writeIn(there)
  if (own !== undefined) return { code: own, path: there }
  if (there !== folder) return undefined
  for (const path of [join(folder, 'agents'), join(folder, 'work')]) {
    const code = await access(path, constants.W_OK | constants.X_OK).then(
      () => undefined,
      (error: NodeJS.ErrnoException) => error.code,
    )
    if (code !== undefined && code !== 'ENOENT') return { code, path }
  }
  return undefined
}

async function writeIn(folder: string): Promise<string | undefined> {
  const path = join(folder, `.doctor-${randomUUID()}`)
  try {
    const file = await open(path, 'wx', 0o600)
    try {
      await file.writeFile(Buffer.alloc(PROBE_BYTES, 1))
      await file.sync()
    } finally {
      await file.close()
      await rm(path, { force: true })
    }
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error)
  }
}

async function fixOf(code: string, path: string, { dataDir }: DiskConfig): Promise<string> {
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return `free some room in ${path}, or use a larger volume`
  if (code === 'EACCES' || code === 'EPERM') {
    // Root without these capabilities is the wrong user.
    return process.getuid?.() === 0 ? FIXES.user : FIXES.owner(path, await isInMemory(path))
  }
  return FIXES.volume(dataDir ?? path)
}

/** Of statfs(2). */
const TMPFS_MAGIC = 0x01021994

async function isInMemory(path: string): Promise<boolean> {
  return (await statfs(path)).type === TMPFS_MAGIC
}
