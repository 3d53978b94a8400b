! Messages round a ring and a few collective calls, by each of Fortran's interfaces to MPI: -DF08, -DMPIF_H, else
! the module mpi. test_generated_calls.py has the counts. Ends with 1 if MPI gave it anything wrong.
program calls
#if defined(F08)
  use mpi_f08
#elif !defined(MPIF_H)
  use mpi
#endif
  implicit none
#if defined(MPIF_H)
  include 'mpif.h'
#endif
#if defined(F08)
  type(MPI_Request) :: requests(2), persistent
  type(MPI_Status) :: status
  type(MPI_Comm) :: half
#else
  integer :: requests(2), persistent, status(MPI_STATUS_SIZE), half
#endif
  integer :: rank, ranks, code, i, next, before, found
  double precision :: a(100), b(100), sums(4)

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  next = mod(rank + 1, ranks)
  before = mod(rank + ranks - 1, ranks)
  a = rank
  do i = 1, 7
    call MPI_Irecv(b, 100, MPI_DOUBLE_PRECISION, before, 1, MPI_COMM_WORLD, requests(1), code)
    call MPI_Isend(a, 10 * i, MPI_DOUBLE_PRECISION, next, 1, MPI_COMM_WORLD, requests(2), code)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
  end do
  call MPI_Sendrecv(a, 3, MPI_DOUBLE_PRECISION, next, 2, b, 100, MPI_DOUBLE_PRECISION, before, 2, &
                    MPI_COMM_WORLD, status, code)
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, found, code)
  if (found /= 3) stop 1
  ! every second element: mpi_f08 may hand over where they are instead of a copy
  call MPI_Irecv(b, 50, MPI_DOUBLE_PRECISION, before, 4, MPI_COMM_WORLD, requests(1), code)
  call MPI_Send(a(1:99:2), 50, MPI_DOUBLE_PRECISION, next, 4, MPI_COMM_WORLD, code)
  call MPI_Wait(requests(1), status, code)
  if (b(50) /= before) stop 1
  sums = rank
  call MPI_Allreduce(MPI_IN_PLACE, sums, 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
  if (sums(4) /= ranks * (ranks - 1) / 2) stop 1
  if (rank == 0) then
    call MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, 2, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, code)
  else
    call MPI_Gather(a, 2, MPI_DOUBLE_PRECISION, b, 2, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, code)
  end if
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, code)
  call MPI_Barrier(half, code)
  call MPI_Comm_free(half, code)
  call MPI_Send_init(a, 5, MPI_DOUBLE_PRECISION, next, 3, MPI_COMM_WORLD, persistent, code)
  call MPI_Pcontrol(7)
  do i = 1, 2
    call MPI_Start(persistent, code)
    call MPI_Recv(b, 100, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, code)
    call MPI_Wait(persistent, MPI_STATUS_IGNORE, code)
  end do
  call MPI_Pcontrol(-7)
  call MPI_Request_free(persistent, code)
  call MPI_Finalize(code)
end program
