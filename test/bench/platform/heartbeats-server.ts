// The platform process of the bench of heartbeats: the app that receives pings on a database, and nothing else.
import type { AddressInfo } from 'node:net'
import { openDatabase } from '../../../src/database/database.ts'
import { createAlerting } from '../../../src/platform/alerts/alerting.ts'
import { createPingApp } from '../../../src/platform/heartbeats/pings.ts'
import { createHttpServer } from '../../../src/platform/http/http-server.ts'
import { createCipher } from '../../../src/platform/secrets/cipher.ts'
import { createLog } from '../../../src/process/log.ts'

function serve(databaseUrl: string): void {
  const database = openDatabase({ address: { url: databaseUrl }, applicationName: 'bench' })
  const log = createLog({ level: 'warn', pretty: false })
  const cipher = createCipher('bench')
  const { onRecorded } = createAlerting({ database, cipher, clock: { now: Date.now }, log })
  const parts = { database, now: Date.now, onRecorded: [onRecorded] }
  const app = createPingApp(parts, {
    log,
    logOutage: (error) => log.warn({ err: error }, 'outage'),
  })
  const server = createHttpServer(app.fetch as never)
  server.listen(0, '127.0.0.1', () => {
    process.send?.({ port: (server.address() as AddressInfo).port })
  })
}

// No server may outlive a failed bench.
process.once('disconnect', () => process.exit())
process.once('message', serve)
