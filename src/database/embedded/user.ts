// PostgreSQL refuses to run as root, and needs a user that the system knows by name. This chooses one,
// or shows PostgreSQL another user id from within a user namespace: below a home of mode 0700 no other user can enter.
import { spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname } from 'node:path'
import { programEnvironment } from '../../process/env.ts'
import { EmbeddedPostgresError } from './embedded-postgres-error.ts'

/** How to start PostgreSQL's programs. */
export interface PostgresUser {
  /** The owner of its files, and what to start it as; absent where it is who we are. */
  ids?: { uid: number; gid: number }
  /** A command that starts the program given after it. */
  prefix: readonly string[]
  /** For the log. */
  name: string
}

interface SystemUser {
  name: string
  uid: number
  gid: number
}

/** Suitable users, best first; `nobody` exists on every system. */
const NAMES = ['vedette', 'postgres', 'nobody'] as const
const PROBE_MS = 5000

/**
 * Chooses the user. `folder` is the folder of its files, whose parent exists; `program` must be executable for
 * it. Throws EmbeddedPostgresError `USER`.
 */
export function choosePostgresUser(folder: string, program: string): PostgresUser {
  const parent = dirname(folder)
  const self = process.getuid?.() ?? -1
  if (self !== 0) return asOurselves(self)
  const users = systemUsers()
  const owner = statSync(folder, { throwIfNoEntry: false })?.uid
  if (owner !== undefined && owner !== 0) return asOwner(owner, users, parent, program)
  const chosen = NAMES.map((name) => users.find((user) => user.name === name)).find(
    (user) => user !== undefined && user.uid !== 0 && reaches(user, parent, program),
  )
  // A folder that root owns was made from within a namespace and stays with it.
  if (chosen !== undefined && owner === undefined) return asUser(chosen)
  const within = inNamespace()
  if (within !== undefined) return within
  const message =
    `PostgreSQL does not run as root, and no other user (${NAMES.join(', ')}) can enter ${parent} ` +
    `and start ${program}; set DATA_DIR to a folder that others may enter, start as another user, ` +
    'or set DATABASE_URL'
  throw new EmbeddedPostgresError('USER', message)
}

function asOurselves(uid: number): PostgresUser {
  try {
    return { prefix: [], name: userInfo().username }
  } catch {
    const within = inNamespace()
    if (within !== undefined) return within
    const message =
      `PostgreSQL needs a user with a name, and user id ${uid} has no entry in /etc/passwd; ` +
      'add one, start as another user, or set DATABASE_URL'
    throw new EmbeddedPostgresError('USER', message)
  }
}

function asOwner(
  uid: number,
  users: readonly SystemUser[],
  parent: string,
  program: string,
): PostgresUser {
  const user = users.find((one) => one.uid === uid)
  if (user !== undefined && reaches(user, parent, program)) return asUser(user)
  const why =
    user === undefined
      ? 'which has no entry in /etc/passwd'
      : `(${user.name}), who cannot enter ${parent} or start ${program}`
  const message = `the database in ${parent} belongs to user id ${uid}, ${why}; start as its owner, or give it to another user with chown`
  throw new EmbeddedPostgresError('USER', message)
}

function asUser({ name, uid, gid }: SystemUser): PostgresUser {
  return { ids: { uid, gid }, prefix: [], name }
}

function systemUsers(): SystemUser[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter(({ name, uid, gid }) => name !== '' && Number.isInteger(uid) && Number.isInteger(gid))
}

/** Whether a user may enter the folder and start the program: asked of the system, by trying. */
function reaches({ uid, gid }: SystemUser, folder: string, program: string): boolean {
  const script = 'cd "$0" && [ -x "$1" ]'
  const probe = spawnSync('/bin/sh', ['-c', script, folder, program], {
    uid,
    gid,
    cwd: '/',
    env: programEnvironment(),
    stdio: 'ignore',
    timeout: PROBE_MS,
  })
  return probe.status === 0
}

/**
 * A user namespace in which PostgreSQL runs as `nobody`, while for the system it is the owner of the files.
 * Undefined where the system does not allow it, as in most containers.
 */
function inNamespace(): PostgresUser | undefined {
  const nobody = systemUsers().find((user) => user.name === 'nobody')
  if (nobody === undefined) return undefined
  const ids = [`--map-user=${nobody.uid}`, `--map-group=${nobody.gid}`]
  const prefix = ['unshare', '--user', ...ids, '--']
  const [command = '', ...args] = prefix
  const env = programEnvironment()
  const probe = spawnSync(command, [...args, 'true'], { env, stdio: 'ignore', timeout: PROBE_MS })
  return probe.status === 0 ? { prefix, name: 'nobody, in a user namespace' } : undefined
}
