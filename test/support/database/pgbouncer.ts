// Debian's PgBouncer in front of a PostgreSQL server of the tests.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'
import { freePort } from '../network/free-port.ts'
import { temporaryFile } from '../temporary-folder.ts'

/**
 * Starts PgBouncer with one pool mode and otherwise its defaults, in front of the database of `url`, for one test.
 * Returns the URL of the database behind it.
 */
export async function startPgBouncer(url: string, poolMode: string): Promise<string> {
  const { hostname, port: databasePort, pathname } = new URL(url)
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
  const file = temporaryFile('pgbouncer.ini', `${lines.join('\n')}\n`)
  // It refuses to run as root.
  const ids = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
  const child = spawn('pgbouncer', [file], { ...ids, stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  let log = ''
  for await (const chunk of child.stderr.iterator({ destroyOnReturn: false })) {
    log += String(chunk)
    if (log.includes('process up')) return `postgresql://vedette@127.0.0.1:${port}${pathname}`
  }
  throw new Error(`PgBouncer ended: ${log}`)
}
