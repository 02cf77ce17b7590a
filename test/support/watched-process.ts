// Loaded by `node --import` into a process of the program: records every loaded module and every attempted
// connection, and makes the process fail on SIGUSR2, as WATCHED_FAULT says.
import { appendFileSync } from 'node:fs'
import { subscribe } from 'node:diagnostics_channel'
import { registerHooks } from 'node:module'
import type { Socket } from 'node:net'

const { WATCHED_FILE = '', WATCHED_FAULT = 'throw', WATCHED_TEXT = '' } = process.env
delete process.env['WATCHED_TEXT']

registerHooks({
  load(url, context, nextLoad) {
    appendFileSync(WATCHED_FILE, `load ${url}\n`)
    return nextLoad(url, context)
  },
})
subscribe('net.client.socket', (message) => {
  const { socket } = message as { socket: Socket }
  socket.on('connectionAttempt', (address: string, port: number) =>
    appendFileSync(WATCHED_FILE, `connect ${address}:${port}\n`),
  )
})
subscribe('udp.socket', () => appendFileSync(WATCHED_FILE, 'datagrams\n'))

process.on('SIGUSR2', () => {
  const fault = new TypeError(`Cannot read properties of undefined ${WATCHED_TEXT}`, {
    cause: new Error(WATCHED_TEXT),
  })
  if (WATCHED_FAULT === 'reject') void Promise.reject(fault)
  else throw fault
})
