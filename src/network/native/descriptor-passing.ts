// Passes open descriptors between processes over a local socket (SCM_RIGHTS, unix(7)), which Node
// offers between its own processes only. Layouts are those of 64-bit Linux (cmsg(3), sendmsg(2)).
import { addressOf, checked, libcFunction } from './syscalls.ts'

const sendmsg = libcFunction('long sendmsg(int, void *, int)')
const recvmsg = libcFunction('long recvmsg(int, void *, int)')
const shutdown = libcFunction('int shutdown(int, int)')
const socketpair = libcFunction('int socketpair(int, int, int, void *)')

const SOL_SOCKET = 1
const SCM_RIGHTS = 1
const CONTROL_BYTES = 24 // CMSG_SPACE(sizeof(int))
const MSG_NOSIGNAL = 0x4000
const MSG_CMSG_CLOEXEC = 0x40000000
const AF_UNIX = 1
const SOCK_STREAM = 1
const SOCK_CLOEXEC = 0o2000000
const SHUT_RDWR = 2

/** Two ends of a local socket, both closed when a process becomes another program. Throws. */
export function descriptorPair(): [number, number] {
  const ends = Buffer.alloc(8)
  checked('socketpair', socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
  return [ends.readInt32LE(0), ends.readInt32LE(4)]
}

/** Sends bytes with a descriptor. Throws. */
export function sendDescriptor(socket: number, bytes: Buffer, descriptor: number): void {
  const { message, control } = messageFor(bytes)
  control.writeBigUInt64LE(20n, 0) // CMSG_LEN(sizeof(int))
  control.writeInt32LE(SOL_SOCKET, 8)
  control.writeInt32LE(SCM_RIGHTS, 12)
  control.writeInt32LE(descriptor, 16)
  checked('sendmsg', sendmsg(socket, message, MSG_NOSIGNAL))
}

/** Waits for bytes, at most so many, and a descriptor if one comes along; no bytes at the end. Throws. */
export async function receiveDescriptor(
  socket: number,
  bytesMax: number,
): Promise<{ bytes: Buffer; descriptor: number | undefined }> {
  const bytes = Buffer.alloc(bytesMax)
  const { message, control } = messageFor(bytes)
  const length = await new Promise<number>((resolve, reject) => {
    recvmsg.async(socket, message, MSG_CMSG_CLOEXEC, (error: Error | null, result: number) => {
      if (error === null) resolve(result)
      else reject(error)
    })
  })
  if (length < 0) throw new Error('recvmsg failed')
  const came = message.readBigUInt64LE(40) > 0n
  const descriptor =
    came && control.readInt32LE(12) === SCM_RIGHTS ? control.readInt32LE(16) : undefined
  return { bytes: bytes.subarray(0, length), descriptor }
}

/** Shuts the socket down; a waiting receiver gets the end at once. */
export function hangUp(socket: number): void {
  shutdown(socket, SHUT_RDWR)
}

/** Objects whose addresses are in a message: V8 would collect them as soon as no variable refers to them. */
const ledTo = new WeakMap<Buffer, readonly Buffer[]>()

/** A `struct msghdr` for bytes and one descriptor; all its parts live as long as the message. */
function messageFor(bytes: Buffer): { message: Buffer; control: Buffer } {
  const control = Buffer.alloc(CONTROL_BYTES)
  const vector = Buffer.alloc(16)
  vector.writeBigUInt64LE(addressOf(bytes), 0)
  vector.writeBigUInt64LE(BigInt(bytes.length), 8)
  const message = Buffer.alloc(56)
  message.writeBigUInt64LE(addressOf(vector), 16)
  message.writeBigUInt64LE(1n, 24)
  message.writeBigUInt64LE(addressOf(control), 32)
  message.writeBigUInt64LE(BigInt(control.length), 40)
  ledTo.set(message, [bytes, vector, control])
  return { message, control }
}
