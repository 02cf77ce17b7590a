// Debian's PgBouncer in front of a PostgreSQL server of the tests.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../network/free-port.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** A running pooler. */
export interface PgBouncer {
  /** URL of the database behind it. */
  url: string
  close(): Promise<void>
}

/** Starts PgBouncer with one pool mode and otherwise its defaults, in front of the database of `url`. */
export async function startPgBouncer(url: string, poolMode: string): Promise<PgBouncer> {
  const { hostname, port: databasePort, pathname } = new URL(url)
  const folder = temporaryFolder()
  const port = await freePort()
  const lines = [
    '[databases]',
    `* = host=${hostname} port=${databasePort} user=vedette`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    `pool_mode = ${poolMode}`,
    'default_pool_size = 50',
  ]
  const file = join(folder, 'pgbouncer.ini')
  await chmod(folder, 0o755)
  await writeFile(file, `${lines.join('\n')}\n`)
  // It refuses to run as root.
  const ids = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
  const child = spawn('pgbouncer', [file], { ...ids, stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = once(child, 'exit')
  await isUp(child.stderr, exited)
  return {
    url: `postgresql://vedette@127.0.0.1:${port}${pathname}`,
    async close() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

async function isUp(stderr: NodeJS.ReadableStream, exited: Promise<unknown>): Promise<void> {
  let log = ''
  const up = new Promise<void>((resolve) => {
    stderr.on('data', (chunk: Buffer) => {
      log += chunk.toString()
      if (log.includes('process up')) resolve()
    })
  })
  await Promise.race([up, exited.then(() => Promise.reject(new Error(`PgBouncer ended: ${log}`)))])
}
