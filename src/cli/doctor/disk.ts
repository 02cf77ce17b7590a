// Probes whether DATA_DIR can be written to and has room. Existing files are not touched: one small file is written
// and removed.
import { randomUUID } from 'node:crypto'
import { constants, existsSync } from 'node:fs'
import { access, open, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { AgentConfig } from '../../agent/config.ts'
import { writeProblem } from '../../process/disk-problem.ts'
import { type Finding, USER_FIX } from './finding.ts'

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
  const there = nearest(folder)
  const problem = await firstProblem(there, folder)
  const room = await roomIn(there)
  const facts = { folder, ...room }
  if (problem !== undefined) {
    const { path, error } = problem
    const { code = '' } = error
    const { why, fix } = writeProblem(error) ?? { why: error.message, fix: undefined }
    const says = `${path} cannot be written to: ${why}`
    const isForeign = code === 'EACCES' || code === 'EPERM'
    const found = { says, fix: isForeign ? await ownerFix(path) : fix }
    return [{ id: 'disk', standing: 'broken', ...found, facts: { ...facts, problem: code } }]
  }
  const isMade = there !== folder
  const says = `${folder} ${isMade ? 'can be created' : 'can be written to'}, ${roomText(room)}`
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

function recommendationOf(
  { dataDir, spoolBytesMax, monitorsFile, platformUrl }: DiskConfig,
  { freeBytes, freeInodes = Infinity }: Room,
): [why: string, fix: string] | undefined {
  if (freeInodes < INODES_MIN)
    return ['hardly any file can be created', 'remove files, or use a larger volume']
  if (monitorsFile !== undefined || platformUrl === undefined) return undefined
  if (freeBytes < spoolBytesMax) {
    const why = `results are stored here while the platform is unreachable, up to ${Math.ceil(spoolBytesMax / MIB)} MiB (SPOOL_BYTES_MAX)`
    const fits = Math.max(1, Math.floor(freeBytes / 2 / MIB))
    return [why, `set SPOOL_BYTES_MAX=${fits}MiB`]
  }
  if (dataDir !== undefined) return undefined
  return [
    'results that wait for the platform are stored among temporary files',
    'set DATA_DIR=/var/lib/vedette',
  ]
}

/** The folder itself, or its closest existing parent. */
const nearest = (folder: string): string => (existsSync(folder) ? folder : nearest(dirname(folder)))

/** The first path that cannot be written to, with the error: a file in `there`, and the subfolders of an agent. */
async function firstProblem(there: string, folder: string) {
  const attempts: [path: string, attempt: () => Promise<void>][] = [
    [there, () => writeIn(there)],
    ...['agents', 'work'].map((name): [string, () => Promise<void>] => {
      const path = join(folder, name)
      return [path, () => access(path, constants.W_OK | constants.X_OK)]
    }),
  ]
  for (const [path, attempt] of attempts) {
    const error = await attempt().catch((thrown: NodeJS.ErrnoException) => thrown)
    if (error !== undefined && (path === there || error.code !== 'ENOENT')) return { path, error }
  }
  return undefined
}

async function writeIn(folder: string): Promise<void> {
  const path = join(folder, `.doctor-${randomUUID()}`)
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(Buffer.alloc(PROBE_BYTES, 1))
    await file.sync()
  } finally {
    await file.close()
    await rm(path, { force: true })
  }
}

const TMPFS_MAGIC = 0x01021994

/** Makes the user of this process the owner; root without the capabilities to write is the wrong user. */
async function ownerFix(path: string): Promise<string> {
  const [uid, gid] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0]
  if (uid === 0) return USER_FIX
  // A tmpfs is new with each container.
  return (await statfs(path)).type === TMPFS_MAGIC
    ? `mount ${path} with uid=${uid},gid=${gid},mode=0751`
    : `chown -R ${uid}:${gid} ${path}  (in a container: the folder that is mounted there)`
}
