! What ALLOCATE gives: each element is written once and read twice.
program memory_allocate
   use iso_c_binding, only: c_loc, c_intptr_t
   implicit none
   integer, parameter :: number = 2048
   real(8), allocatable, target :: field(:)
   real(8) :: total
   integer :: each, time
   allocate (field(number))
   do each = 1, number
      field(each) = each
   end do
   total = 0
   do time = 1, 2
      do each = 1, number
         total = total + field(each)
      end do
   end do
   print '(i0, 1x, f0.0)', transfer(c_loc(field), 0_c_intptr_t), total
   deallocate (field)
end program
