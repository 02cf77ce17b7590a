// The folder of the embedded PostgreSQL: made once and whole, checked at every start.
//   DATA_DIR/postgres        belongs to PostgreSQL's user, 0700
//   DATA_DIR/postgres/data   PostgreSQL's own
//   DATA_DIR/postgres/run    its socket
import { spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programEnvironment } from '../../process/env.ts'
import { makeFolderSync } from '../../process/make-folder.ts'
import { EmbeddedPostgresError } from './embedded-postgres-error.ts'
import type { PostgresBinaries } from './binaries.ts'
import type { PostgresUser } from './user.ts'

/** Where things are; absolute paths. */
export interface PostgresFolder {
  root: string
  data: string
  run: string
}

/** The database's own name of its user. */
export const POSTGRES_ROLE = 'vedette'

/** sun_path of unix(7) has 108 bytes, including the final zero and the name of the socket. */
const SOCKET_FOLDER_BYTES_MAX = 107 - '/.s.PGSQL.5432'.length
const DRAFT = 'data-draft-'
const INITDB_MS = 120_000
const OUTPUT_CHARS_MAX = 4000

/** Where the folder's parts are, made or not. `dataDir` exists. */
export function postgresFolder(dataDir: string): PostgresFolder {
  const root = join(realpathSync(dataDir), 'postgres')
  return { root, data: join(root, 'data'), run: socketFolder(root) }
}

function socketFolder(root: string): string {
  const near = join(root, 'run')
  if (Buffer.byteLength(near) <= SOCKET_FOLDER_BYTES_MAX) return near
  const name = createHash('sha256').update(root).digest('hex').slice(0, 16)
  const far = join(realpathSync(tmpdir()), `vedette-${name}`)
  if (Buffer.byteLength(far) <= SOCKET_FOLDER_BYTES_MAX) return far
  const message = `the path ${root} is too long for a unix socket; set DATA_DIR to a shorter one`
  throw new EmbeddedPostgresError('FOLDER', message)
}

/** Creates missing folders; after the first time, only those that a restart of the machine removed. */
export async function prepareFolder(
  folder: PostgresFolder,
  user: PostgresUser,
  binaries: PostgresBinaries,
): Promise<void> {
  own(folder.root, user)
  own(folder.run, user)
  if (existsSync(join(folder.data, 'PG_VERSION'))) {
    checkVersion(folder, binaries)
    return
  }
  if (existsSync(folder.data)) {
    const message = `${folder.data} is not a folder of PostgreSQL; move it away, or set DATA_DIR`
    throw new EmbeddedPostgresError('FOLDER', message)
  }
  removeDrafts(folder.root)
  const draft = join(folder.root, `${DRAFT}${randomUUID()}`)
  await initialise(draft, folder.root, user, binaries)
  renameSync(draft, folder.data)
}

/** What first starts left that were killed half-way; their initdb may still be at it for a moment. */
function removeDrafts(root: string): void {
  const drafts = readdirSync(root).filter((name) => name.startsWith(DRAFT))
  for (const name of drafts) {
    try {
      rmSync(join(root, name), { recursive: true, force: true })
    } catch {
      // The next start that makes a folder tries again.
    }
  }
}

/** A folder that only PostgreSQL's user may enter. */
function own(path: string, { ids }: PostgresUser): void {
  makeFolderSync(path, 0o700)
  const found = lstatSync(path)
  if (!found.isDirectory()) {
    throw new EmbeddedPostgresError('FOLDER', `${path} is not a folder; move it away`)
  }
  const self = process.getuid?.() ?? 0
  const owner = ids?.uid ?? self
  // In a shared temporary folder another user might have created it first.
  if (found.uid !== owner && found.uid !== self) {
    const message = `${path} belongs to user id ${found.uid} instead of ${owner}; move it away`
    throw new EmbeddedPostgresError('FOLDER', message)
  }
  if (found.uid !== owner && ids !== undefined) chownSync(path, ids.uid, ids.gid)
  chmodSync(path, 0o700)
}

function checkVersion({ data, root }: PostgresFolder, { major }: PostgresBinaries): void {
  const found = readFileSync(join(data, 'PG_VERSION'), 'utf8').trim()
  if (found === String(major)) return
  const message =
    `${root} was created by PostgreSQL ${found}, this is PostgreSQL ${major}; move its content over ` +
    `with pg_dump of version ${found} and pg_restore, or set DATABASE_URL`
  throw new EmbeddedPostgresError('VERSION', message)
}

// The built-in locale is the same on every machine, so an index never depends on the system's libraries.
function initialise(
  data: string,
  root: string,
  { ids, prefix }: PostgresUser,
  { initdb, major }: PostgresBinaries,
): Promise<void> {
  const locale = ['--encoding=UTF8', '--locale=C']
  if (major >= 17) locale.push('--locale-provider=builtin', '--builtin-locale=C.UTF-8')
  const options = ['-D', data, '-U', POSTGRES_ROLE, '--auth=trust', ...locale]
  const [command = '', ...args] = [...prefix, initdb, ...options]
  const child = spawn(command, args, {
    ...ids,
    cwd: root,
    env: { ...programEnvironment(), LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: INITDB_MS,
    killSignal: 'SIGKILL',
  })
  let output = ''
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-OUTPUT_CHARS_MAX)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  return new Promise((resolve, reject) => {
    const failed = (why: string) => {
      const message = `PostgreSQL could not create its folder ${data}: ${why}`
      reject(new EmbeddedPostgresError('START', message))
    }
    child.once('error', (error) => failed(error.message))
    child.once('close', (code) => (code === 0 ? resolve() : failed(output.trim())))
  })
}
